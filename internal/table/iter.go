package table

import (
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/iter"
)

// IterOptions say how an iterator reads a table.
type IterOptions struct {
	// Reverse iterates from the largest key down.
	Reverse bool
	// KeysOnly reads no values except pointers. Other values have the right
	// lengths, but their contents are not verified.
	KeysOnly bool
	// Unmapped reads blocks by large reads into the iterator's buffers instead
	// of through the mapping, so that a compaction does not evict what users
	// read. A value stays valid until the second Fill after its own. The only
	// cost is the copy. A seek still uses the mapping. Decision 0012 says why
	// the page cache gets no advice.
	Unmapped bool
	// Arena receives decoded values, unless the iterator is Unmapped. They are
	// valid until its Reset. With nil they are on the Go heap.
	Arena *codec.Arena
}

// An Iter returns the entries of a table in order; it implements iter.Source.
// Keys are rebuilt in a buffer of the iterator and are valid until the next Fill.
// Values are valid until the table is closed, unless IterOptions say otherwise.
// Init reuses the buffers. An Iter must not be copied while in use.
type Iter struct {
	r    *Reader
	opts IterOptions
	err  error

	// The next entry is entry at of block; in reverse, the one before it.
	block, at int
	// v and values belong to block if loaded is set.
	v      view
	values []byte
	loaded bool
	// aimed says that a seek is in progress, whose target is the block before
	// block. searched is the block that the last seek left in v, or -1.
	aimed    bool
	searched int
	// inOrder counts the blocks since the last seek. keysFetched and valsFetched
	// are the parts of the file read ahead for them.
	inOrder     int
	keysFetched advance
	valsFetched advance

	unpacker *unpacker
	windows  *windows
}

var _ iter.Source = (*Iter)(nil)

// NewIter returns an iterator without a position.
func (r *Reader) NewIter(opts IterOptions) *Iter {
	it := &Iter{}
	it.Init(r, opts)
	return it
}

// Init makes it an iterator over r without a position. It keeps what it has read
// of r by large reads.
func (it *Iter) Init(r *Reader, opts IterOptions) {
	u, w, before := it.unpacker, it.windows, it.r
	if u == nil {
		u = &unpacker{}
	}
	*it = Iter{r: r, opts: opts, unpacker: u, windows: w, searched: -1}
	switch {
	case w == nil && opts.Unmapped:
		it.windows = &windows{}
	case w != nil && r != before:
		w.reset()
	}
	it.block = int(r.blocks)
	if opts.Reverse {
		it.block = 0
	}
}

// Close releases the table and the arena. Only Init may follow.
func (it *Iter) Close() {
	it.r, it.v, it.values, it.opts.Arena, it.err = nil, view{}, nil, nil, nil
}

// Fill replaces the contents of b as iter.Source says.
func (it *Iter) Fill(b *iter.Batch) error {
	b.N = 0
	if it.err != nil {
		return it.err
	}
	if invariant.Enabled {
		invariant.Mangle(it.unpacker.keys)
	}
	it.unpacker.keys = it.unpacker.keys[:0]
	want := min(b.Want, iter.BatchSize)
	for b.N < want && it.settle() {
		if it.opts.Unmapped && !it.loaded && b.N > 0 {
			break // one block per Fill: see windows
		}
		if !it.loaded {
			if err := it.load(); err != nil {
				return it.fail(b, err)
			}
		}
		if it.opts.Reverse {
			it.fillBackward(b, min(want-b.N, it.at))
		} else {
			it.fillForward(b, min(want-b.N, it.v.count-it.at))
		}
	}
	return nil
}

// fail ends a Fill that could not load the current block. If the reader of the batch needs
// nothing of the block, this is the end of the table. The next Fill returns the error if the
// batch has entries of other blocks.
func (it *Iter) fail(b *iter.Batch, err error) error {
	if b.Bound != nil && it.beyond(b.Bound) {
		if it.block, it.at = int(it.r.blocks), 0; it.opts.Reverse {
			it.block = 0
		}
		return nil
	}
	if it.err = err; b.N > 0 {
		return nil
	}
	return err
}

// beyond reports whether all entries of the current block, which could not be loaded, lie
// beyond a bound. It reports false if that is unknown because keys are damaged.
func (it *Iter) beyond(bound []byte) bool {
	if it.opts.Reverse {
		v, err := it.r.view(it.block)
		return err == nil && v.before(v.count-1, bound, base.SeqNumMax)
	}
	first, err := it.r.firstBlockFrom(bound, base.SeqNumMax)
	return err == nil && it.block >= first
}

// settle moves from the end of one block to the next one. It reports false at
// the end of the table.
func (it *Iter) settle() bool {
	if it.opts.Reverse {
		if it.at == 0 {
			if it.block == 0 {
				return false
			}
			it.block--
			it.at = it.r.entryOf(it.block).count
			it.loaded = false
		}
		return true
	}
	if it.loaded && it.at == it.v.count {
		it.block++
		it.at, it.loaded = 0, false
	}
	return it.block < int(it.r.blocks)
}

// load reads the current block.
func (it *Iter) load() error {
	var err error
	if it.opts.Unmapped {
		it.v, it.values, err = it.windows.load(it.r, it.block, it.opts)
	} else {
		err = it.loadMapped()
	}
	if err != nil {
		return err
	}
	it.loaded, it.searched = true, -1
	it.inOrder++
	return nil
}

func (it *Iter) loadMapped() error {
	r, b, crowded := it.r, it.block, it.r.crowded()
	r.gauge.Touch()
	if it.searched != b {
		if err := it.loadKeys(b, crowded); err != nil {
			return err
		}
	}
	if it.opts.KeysOnly && !it.v.points() {
		it.values = r.unread(&it.v)
		return nil
	}
	if it.inOrder == 0 && it.v.codec != codec.None {
		if values, ok := r.cached(b, &it.v, 0, int(it.v.rawLen()), it.opts.Arena); ok {
			it.values = values
			return nil
		}
	}
	if err := it.loadStored(b, crowded); err != nil || it.v.codec == codec.None {
		return err
	}
	return it.decode()
}

// loadKeys reads and verifies the keys of block b.
func (it *Iter) loadKeys(b int, crowded bool) (err error) {
	r := it.r
	if r.keysOK.has(b) {
		it.v = r.viewVerified(b)
		return nil
	}
	e := r.entryOf(b)
	if err := r.checkEntry(b, &e); err != nil {
		return r.inFile(err)
	}
	if err := it.keysFetched.fetch(it, e.keyOff, int64(e.keyLen), crowded); err != nil {
		return err
	}
	if crowded {
		it.v, err = r.copiedKeys(b, e)
		return err
	}
	if err := r.verifyKeys(b, false); err != nil {
		return err
	}
	it.v = r.viewVerified(b)
	return nil
}

// loadStored reads and verifies the values of block b, as they are stored.
func (it *Iter) loadStored(b int, crowded bool) (err error) {
	r, v := it.r, &it.v
	if !r.valsOK.has(b) {
		if err := it.valsFetched.fetch(it, v.valOff, int64(v.valLen), crowded); err != nil {
			return err
		}
		if crowded {
			it.values, err = r.copiedValues(b, v)
			return err
		}
		if err := r.verifyValues(b, v, false); err != nil {
			return err
		}
	}
	it.values = r.data[v.valOff : v.valOff+int64(v.valLen)]
	return nil
}

// decode replaces the values of a compressed block by the decoded ones.
func (it *Iter) decode() (err error) {
	if it.inOrder == 0 {
		it.values, err = it.r.decodeAndKeep(it.block, &it.v, it.values, it.opts.Arena)
	} else {
		it.values, err = it.r.decodeInto(&it.v, it.values, it.opts.Arena)
	}
	return err
}

// fillForward puts the next n entries of the loaded block into the batch.
func (it *Iter) fillForward(b *iter.Batch, n int) {
	it.unpacker.unpack(&it.v, it.values, b, b.N, it.at, n)
	it.at += n
	b.N += n
}

// fillBackward puts the n entries of the loaded block before the position into the
// batch, the last one first. Unpacking them in order and then reversing the order is
// faster than going entry by entry.
func (it *Iter) fillBackward(b *iter.Batch, n int) {
	it.at -= n
	it.unpacker.unpack(&it.v, it.values, b, b.N, it.at, n)
	slices.Reverse(b.Entries[b.N : b.N+n])
	b.Plain = false // unpack compares the neighbours of a batch that ascends
	b.N += n
}
