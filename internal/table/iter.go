package table

import (
	"encoding/binary"

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

	buf     []byte // keys of the last Fill
	windows *windows
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
	buf, w, before := it.buf, it.windows, it.r
	*it = Iter{r: r, opts: opts, buf: buf[:0], windows: w, searched: -1}
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
		invariant.Mangle(it.buf)
	}
	it.buf = it.buf[:0]
	want := min(b.Want, iter.BatchSize)
	for b.N < want && it.settle() {
		if it.opts.Unmapped && !it.loaded && b.N > 0 {
			break // one block per Fill: see windows
		}
		if !it.loaded {
			if err := it.load(); err != nil {
				it.err, b.N = err, 0
				return err
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
		it.values, err = it.r.seekValues(it.block, &it.v, it.values, it.opts.Arena)
	} else {
		it.values, err = it.r.decodeInto(&it.v, it.values, it.opts.Arena)
	}
	return err
}

// fillForward puts the next n entries of the loaded block into the batch.
func (it *Iter) fillForward(b *iter.Batch, n int) {
	it.show(b, b.N, it.at, n)
	it.at += n
	b.N += n
}

// fillBackward puts the n entries of the loaded block before the position into the
// batch, the last one first. Copying columns and then reversing the order is
// faster than going entry by entry.
func (it *Iter) fillBackward(b *iter.Batch, n int) {
	it.at -= n
	it.show(b, b.N, it.at, n)
	for i, j := b.N, b.N+n-1; i < j; i, j = i+1, j-1 {
		b.Keys[i], b.Keys[j] = b.Keys[j], b.Keys[i]
		b.Vals[i], b.Vals[j] = b.Vals[j], b.Vals[i]
		b.Seqs[i], b.Seqs[j] = b.Seqs[j], b.Seqs[i]
		b.Metas[i], b.Metas[j] = b.Metas[j], b.Metas[i]
	}
	b.N += n
}

// show puts n entries of the loaded block, starting with entry at, into the batch
// at index i.
func (it *Iter) show(b *iter.Batch, i, at, n int) {
	it.showKeys(b.Keys[i:i+n], at)
	it.showValues(b.Vals[i:i+n], at)
	it.showSeqs(b.Seqs[i:i+n], at)
	it.showMetas(b.Metas[i:i+n], at)
}

// showKeys rebuilds the keys from entry at on.
func (it *Iter) showKeys(dst [][]byte, at int) {
	v := &it.v
	prefix := v.prefix()
	if v.kEnds != width0 {
		for i := range dst {
			start := len(it.buf)
			it.buf = v.appendKey(it.buf, at+i)
			dst[i] = it.buf[start:len(it.buf):len(it.buf)]
		}
		return
	}
	s := int(v.suffixLen)
	n := len(prefix) + s
	start := len(it.buf)
	it.buf = grow(it.buf, n*len(dst))
	buf := it.buf[start:]
	suffixes := v.part[v.oSuffixes+at*s:]
	if s <= 8 && len(prefix) <= 32 {
		showShortKeys(dst, buf, prefix, suffixes, s)
		return
	}
	for i := range dst {
		key := buf[i*n : (i+1)*n : (i+1)*n]
		copy(key, prefix)
		copy(key[len(prefix):], suffixes[i*s:(i+1)*s])
		dst[i] = key
	}
}

// showShortKeys rebuilds keys by whole words. Each key is written together with
// the bytes that follow it in memory; the next key overwrites those.
func showShortKeys(dst [][]byte, buf, prefix, suffixes []byte, s int) {
	p := len(prefix)
	n := p + s
	var padded [32]byte
	copy(padded[:], prefix)
	le := binary.LittleEndian
	w0, w1, w2, w3 := le.Uint64(padded[:]), le.Uint64(padded[8:]), le.Uint64(padded[16:]), le.Uint64(padded[24:])
	for i := range dst {
		o := i * n
		key := buf[o : o+n : o+n]
		if o+40 <= len(buf) && i*s+8 <= len(suffixes) {
			w := buf[o : o+40]
			le.PutUint64(w, w0)
			le.PutUint64(w[8:], w1)
			if p > 16 {
				le.PutUint64(w[16:], w2)
				le.PutUint64(w[24:], w3)
			}
			le.PutUint64(w[p:], le.Uint64(suffixes[i*s:]))
		} else {
			copy(key, prefix)
			copy(key[p:], suffixes[i*s:(i+1)*s])
		}
		dst[i] = key
	}
}

// grow lengthens b by n bytes with undefined contents. If it reallocates, the old
// array stays unchanged, because keys refer to it.
func grow(b []byte, n int) []byte {
	if len(b)+n <= cap(b) {
		return b[:len(b)+n]
	}
	bigger := make([]byte, len(b)+n, 2*(len(b)+n))
	copy(bigger, b)
	return bigger
}

func (it *Iter) showValues(dst [][]byte, at int) {
	v := &it.v
	if v.vEnds == width0 {
		n := int(v.valueLen)
		values := it.values[at*n:]
		for i := range dst {
			dst[i] = values[i*n : (i+1)*n : (i+1)*n]
		}
		return
	}
	from, _ := v.valueSpan(at)
	for i := range dst {
		to := int(v.vEnds.load(v.part, v.oVEnds, at+i))
		dst[i] = it.values[from:to:to]
		from = to
	}
}

func (it *Iter) showSeqs(dst []base.SeqNum, at int) {
	v := &it.v
	least := v.seqLeast()
	if v.seqs == width2 {
		column := v.part[v.oSeqs+2*at:]
		for i := range dst {
			dst[i] = base.SeqNum(least + uint64(binary.LittleEndian.Uint16(column[2*i:])))
		}
		return
	}
	for i := range dst {
		dst[i] = base.SeqNum(least + v.seqs.load(v.part, v.oSeqs, at+i))
	}
}

func (it *Iter) showMetas(dst []base.Meta, at int) {
	v := &it.v
	if v.hasFlags || v.hasExpiries || v.hasUsers {
		for i := range dst {
			dst[i] = v.meta(at + i)
		}
		return
	}
	m := base.Meta{Kind: base.Kind(v.flags & flagKind)}
	for i := range dst {
		dst[i] = m
	}
}
