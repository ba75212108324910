package table

import (
	"github.com/stoatdb/stoat/internal/base"
)

// A seek waits for memory several times: for fences, for the directory entry of
// the block found, and then for that block's key part. A seek in several tables
// takes each step in all tables in turn, so that the waits of each step overlap:
//
//	Search  FenceSearch.Step until nothing is left  Aim  TouchEntry  Target  Settle
//
// Seek omits TouchEntry and Target, which change nothing.

// Search begins a seek. The iterator has no position until Settle.
func (it *Iter) Search(key []byte) FenceSearch {
	it.err, it.loaded, it.inOrder, it.searched = nil, false, 0, -1
	it.keysFetched, it.valsFetched = advance{}, advance{}
	it.at, it.aimed = 0, false
	if key != nil {
		return it.r.searchFor(key)
	}
	return FenceSearch{}
}

// Aim continues a seek with the fence that the search has found.
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

// TouchEntry brings the directory entry of the target block into the cache. The
// result has no meaning.
func (it *Iter) TouchEntry() uint64 {
	if !it.aimed {
		return 0
	}
	return uint64(it.r.directory[(it.block-1)*blockEntrySize])
}

// Target returns the key part of the target block, so that the caller can touch
// many such parts before Settle reads them. It is nil if the part may not be in
// memory.
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
