package table

import (
	"github.com/stoatdb/stoat/internal/base"
)

// A seek waits for memory again and again: for fences, for the directory's
// entry of the block that they lead to, and then for the key part that the
// entry leads to. Who seeks in several tables takes the steps of all of them in
// turn, so that it waits for each kind once:
//
//	Search  FenceSearch.Step until nothing is left  Aim  TouchEntry  Target  Settle
//
// Seek does without the two before the last, which change nothing.

// Search begins a seek. The iterator has no position until Settle.
func (it *Iter) Search(key []byte) FenceSearch {
	it.err, it.loaded, it.inOrder, it.searched = nil, false, 0, -1
	it.keysFetched, it.valsFetched = span{}, span{}
	it.at, it.aimed = 0, false
	if key != nil {
		return it.r.searchFor(key)
	}
	return FenceSearch{}
}

// Aim goes on with a seek, with the fence that the search has found.
func (it *Iter) Aim(key []byte, s *FenceSearch) {
	switch {
	case key != nil:
		it.block, it.err = it.r.firstOfEqual(s, key, base.SeqNumMax)
		it.aimed = it.err == nil && it.block > 0
	case it.opts.Reverse:
		it.block = int(it.r.blocks)
	default:
		it.block = 0
	}
}

// TouchEntry brings the directory's entry of the block aimed at into the
// cache. What it returns has no meaning.
func (it *Iter) TouchEntry() uint64 {
	if !it.aimed {
		return 0
	}
	return uint64(it.r.directory[(it.block-1)*blockEntrySize])
}

// Target returns the key part of the block aimed at, for who wants to touch it
// before Settle reads it: of many blocks at once, which is why it is not done
// here. It is nil if it may not be in memory.
func (it *Iter) Target() []byte {
	r, b := it.r, it.block-1
	if !it.aimed || !r.keysOK.has(b) {
		return nil
	}
	off, n := keyPartOf(r.directory[b*blockEntrySize:])
	return r.data[off : off+n]
}

// Settle ends a seek to key.
func (it *Iter) Settle(key []byte) {
	if !it.aimed {
		return
	}
	it.aimed = false
	b := it.block - 1
	if it.v, it.err = it.r.view(b); it.err != nil {
		return
	}
	if i := it.v.search(key, base.SeqNumMax); i < it.v.count {
		it.block, it.at, it.searched = b, i, b
	}
}

// Seek positions the iterator as iter.Source says.
func (it *Iter) Seek(key []byte) {
	s := it.Search(key)
	for s.Left > 0 {
		s.Step()
	}
	it.Aim(key, &s)
	it.Settle(key)
}
