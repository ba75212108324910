package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// A Hint is what the manifest says of a table.
type Hint struct {
	Salt uint64
	// SeqShift is that of the manifest: an ingest writes its tables before it has a
	// version. Without a manifest, the version of ingested entries is lost.
	SeqShift base.SeqNum
	// Counts are totals of the table. They are nil if nothing is known.
	Counts *Counts
}

// Counts are the totals of the entries of a table.
type Counts struct{ Entries, Deletions, Expiring, Pointers, Partials, RangeDeletions uint64 }

// A Lost is a part of a table that does not verify.
type Lost struct {
	// Offset and Length say where the part is, in bytes. The offset is -1 if unknown.
	Offset, Length int64
	// From and To bound the keys of the lost entries, inclusively. nil is no bound.
	From, To []byte
	// Entries counts the lost entries, 0 if unknown.
	Entries uint64
	Err     error
}

// A Damaged reads the blocks that verify of a table of which any part may be damaged. It
// needs the directory and the checksums of blocks, and tries to restore both. One
// goroutine uses it at a time.
//
// The footer proves a part by its checksum. Without that proof, everything must agree with
// an entry of the directory. Everything means the checksums of its block, the order of
// keys, the hash index, and the totals of the table.
type Damaged struct {
	src  io.ReaderAt
	name string
	// shift is Hint.SeqShift.
	shift base.SeqNum

	footer
	sums, directory []byte
	dirAt           int64 // offset of the directory
	// proven says that the footer proves the directory.
	proven bool
	index  []byte // the hash index, nil unless it helps to prove the directory
	// strict says that a block needs a column of flags to count.
	strict    bool
	deletions *rangedel.List
	props     *Properties // nil if they are lost
	counts    *Counts
	// left is how many bytes may still be read: of blocks in one pass, or in a search.
	// Only a table that an attacker made reaches the limit.
	left int64
	// Problems are the parts outside of blocks that are lost. Notes are those that could
	// be restored, at least in part.
	Problems []Lost
	Notes    []error
}

// OpenDamaged opens a table of the given size. hint may be nil. It fails if no block can
// be found. A read error of src counts as damage, so src should return zeros instead.
func OpenDamaged(src io.ReaderAt, size int64, name string, hint *Hint) (*Damaged, error) {
	d := &Damaged{src: src, name: name}
	if hint != nil {
		d.counts, d.shift = hint.Counts, hint.SeqShift
	}
	err := d.findFooter(size)
	if err == nil && hint != nil && hint.Salt != d.salt {
		err = base.Corrupt(-1, "salt of a table", fmt.Sprintf("%#x", d.salt), fmt.Sprintf("%#x", hint.Salt))
	} else if err == nil {
		err = d.openSections()
	}
	if err != nil && hint != nil {
		if d.findDirectory(size, hint.Salt) == nil {
			d.note(fmt.Errorf("%w; the directory was found without the footer", err))
			if c := d.counts; c != nil && c.RangeDeletions > 0 {
				d.lose(-1, 0, err)
			}
			err = nil
		}
	}
	if err != nil {
		return nil, base.InFile(err, name)
	}
	if !d.proven {
		d.prove()
	}
	return d, nil
}

// lose notes a lost part outside of blocks.
func (d *Damaged) lose(at, n int64, err error) {
	d.Problems = append(d.Problems, Lost{Offset: at, Length: n, Err: base.InFile(err, d.name)})
}

// note notes a part that was restored.
func (d *Damaged) note(err error) { d.Notes = append(d.Notes, base.InFile(err, d.name)) }

// Deletions returns the range tombstones that verify.
func (d *Damaged) Deletions() *rangedel.List { return d.deletions }

// Blocks returns the number of blocks.
func (d *Damaged) Blocks() int { return int(d.blocks) }

// Properties returns the properties, or nil if they are damaged.
func (d *Damaged) Properties() *Properties { return d.props }

// read returns n bytes from offset at. Bytes that cannot be read are zero.
func (d *Damaged) read(at, n int64) []byte {
	b := make([]byte, n)
	_, _ = d.src.ReadAt(b, at) // what was not read does not verify
	return b
}

// searchStep is the number of bytes that a search reads at once.
const searchStep = 1 << 20

// search calls found for each place in [from, to) at which b begins, until it returns
// true.
func (d *Damaged) search(b []byte, from, to int64, found func(at int64) bool) bool {
	for at := from; at < to && d.left > 0; at += searchStep {
		d.left -= min(searchStep, to-at)
		window := d.read(at, min(searchStep+int64(len(b))-1, to-at))
		for i := 0; ; i++ {
			next := bytes.Index(window[i:], b)
			if next < 0 {
				break
			}
			if i += next; found(at + int64(i)) {
				return true
			}
		}
	}
	return false
}

// findFooter decodes the footer. It finds the footer of a file that became longer, and
// corrects one wrong bit.
func (d *Damaged) findFooter(size int64) (err error) {
	at := size - footerSize
	if at < 0 {
		_, err = decodeFooter(nil, size)
		return err
	}
	tail := d.read(at, footerSize)
	if d.footer, err = decodeFooter(tail, size); err == nil {
		return nil
	}
	var f footer
	if base.FixBit(tail, func() bool {
		var e error
		f, e = decodeFooter(tail, size)
		return e == nil
	}) {
		d.footer = f
		d.note(fmt.Errorf("%w; one bit was corrected", err))
		return nil
	}
	mark := binary.LittleEndian.AppendUint64(nil, magic)
	d.left = 2*size + searchStep
	if d.search(mark, 0, at, func(at int64) bool {
		var e error
		f, e = decodeFooter(d.read(at, footerSize), at+footerSize)
		return e == nil
	}) {
		d.footer = f
		return nil
	}
	return err
}

// flagsBudget is how many bytes a search for wrong bits of the directory hashes at most.
const flagsBudget = 16 << 30

// openSections reads the sections behind the hash index.
func (d *Damaged) openSections() error {
	all := d.read(d.sumsOff(), d.footerOff()-d.sumsOff())
	part := func(from, to int64) []byte { return all[from-d.sumsOff() : to-d.sumsOff()] }
	sound := func(b []byte, at int64, sum uint64) bool {
		return d.sumOf(b, at) == sum || base.FixBit(b, func() bool { return d.sumOf(b, at) == sum })
	}
	bad := func(what string) error { return fmt.Errorf("%w: %s of %s", base.ErrCorrupt, what, d.name) }
	d.sums = part(d.sumsOff(), d.fencesOff())
	d.directory = part(d.directoryOff(), d.delsOff())
	d.dirAt = d.directoryOff()
	d.proven = sound(d.directory, d.dirAt, d.directorySum)
	if b := part(d.propsOff(), d.footerOff()); sound(b, d.propsOff(), d.propsSum) {
		if p, err := decodeProperties(b, d.propsOff()); err == nil && p.Blocks == uint64(d.blocks) {
			d.props = &p
			d.counts = &Counts{p.Entries, p.Deletions, p.Expiring, p.Pointers, p.Partials, 0}
		}
	}
	err := bad("range tombstones")
	if b := part(d.delsOff(), d.propsOff()); sound(b, d.delsOff(), d.delsSum) {
		// Decode a copy: its keys outlive the other sections.
		d.deletions, err = rangedel.Decode(slices.Clone(b), d.delsOff())
	}
	if err != nil {
		d.lose(d.delsOff(), d.delsLen, err)
	}
	if d.sumOf(d.sums, d.sumsOff()) != d.sumsSum {
		d.restoreSums()
	}
	if !d.proven {
		d.index = d.read(d.hashOff(), d.sumsOff()-d.hashOff())
		d.note(bad("directory"))
	}
	return nil
}

// restoreSums computes the checksums anew. If they agree with the footer, the checksums
// were damaged, and the blocks are not.
func (d *Damaged) restoreSums() {
	if !d.proven {
		return
	}
	fresh := make([]byte, 0, len(d.sums))
	add := func(at, n int64) {
		fresh = binary.LittleEndian.AppendUint64(fresh, d.sumOf(d.read(at, n), at))
	}
	entries := make([]blockEntry, d.blocks)
	left := d.size
	for b := range entries {
		e := &entries[b]
		if e.decode(d.directory[b*blockEntrySize:]); e.check(d.directory[b*blockEntrySize:], 0, d.dataEnd) != nil {
			return
		}
		if left -= int64(e.keyLen) + int64(e.valLen); left < 0 {
			return
		}
		add(e.keyOff, int64(e.keyLen))
	}
	for b := range entries {
		add(entries[b].valOff, int64(entries[b].valLen))
	}
	for at := d.hashOff(); at < d.sumsOff(); at += pageSize {
		add(at, min(pageSize, d.sumsOff()-at))
	}
	if d.sumOf(fresh, d.sumsOff()) == d.sumsSum {
		d.sums = fresh
	}
}

// tries bounds the places that findDirectory takes for the start of a directory.
const tries = 1 << 10

// findDirectory looks for the directory and the checksums of a table whose footer is
// lost. The first entry of a directory has a value part at offset 0. The checksums of its
// parts lie before the directory: first all those of key parts, then of value parts.
func (d *Damaged) findDirectory(size int64, salt uint64) error {
	d.footer = footer{salt: salt, size: size}
	d.sums, d.directory, d.index, d.props, d.deletions, d.proven = nil, nil, nil, nil, nil, false
	d.Problems, d.Notes = nil, nil
	left := tries
	d.left = 64 * (size + searchStep)
	for at := int64(0); at+blockEntrySize <= size; at += searchStep {
		window := d.read(at, min(searchStep+blockEntrySize, size-at))
		for i := 0; i+blockEntrySize <= len(window) && i < searchStep; i += 4 {
			var e blockEntry
			src := window[i:]
			if e.decode(src); e.valOff != 0 || e.keyLen == 0 || e.keyOff < int64(e.valLen) || e.check(src, 0, at+int64(i)) != nil {
				continue
			}
			if left--; left < 0 {
				return errors.New("no directory")
			}
			if d.takeDirectory(at+int64(i), &e) {
				return nil
			}
		}
	}
	return errors.New("no directory")
}

// takeDirectory reports whether the directory begins at offset at, with the entry e.
func (d *Damaged) takeDirectory(at int64, e *blockEntry) bool {
	sum := func(off int64, n uint32) []byte {
		return binary.LittleEndian.AppendUint64(nil, d.sumOf(d.read(off, int64(n)), off))
	}
	keySum, valSum := sum(e.keyOff, e.keyLen), sum(e.valOff, e.valLen)
	end := e.keyOff + int64(e.keyLen)
	return d.search(keySum, end, at, func(first int64) bool {
		return d.search(valSum, first+sumSize, at, func(second int64) bool {
			blocks := (second - first) / sumSize
			if (second-first)%sumSize != 0 || blocks > blocksMax || first+2*sumSize*blocks > at {
				return false
			}
			d.blocks, d.dataEnd, d.dirAt = blocks, first, at
			d.sums = d.read(first, 2*sumSize*blocks)
			d.directory = d.read(at, min(blockEntrySize*blocks, d.size-at))
			d.directory = append(d.directory, make([]byte, blockEntrySize*blocks-int64(len(d.directory)))...)
			return true
		})
	})
}

// prove decides what counts of a directory that no checksum proves. A wrong kind of all
// entries of a block is the one error that the block itself cannot show.
func (d *Damaged) prove() {
	if d.repairFlags() {
		return
	}
	seen, lost := Counts{}, false
	d.each(func(b int, v *view, err error) {
		if err != nil {
			lost = true
			return
		}
		for i := range v.count {
			m := v.meta(i)
			seen.add(&m)
		}
	})
	switch c := d.counts; {
	case c == nil:
		d.strict = !lost // nothing else explains the wrong checksum
	case lost:
		d.strict = seen.Deletions > c.Deletions || seen.Expiring > c.Expiring || seen.Pointers > c.Pointers || seen.Partials > c.Partials
	default:
		c := *c
		c.RangeDeletions = 0
		d.strict = seen != c
	}
}

func (c *Counts) add(m *base.Meta) {
	c.Entries++
	switch m.Kind {
	case base.KindDelete:
		c.Deletions++
	case base.KindPointer:
		c.Pointers++
	case base.KindMerge, base.KindRenew:
		c.Partials++
	}
	if m.ExpiresAt != 0 {
		c.Expiring++
	}
}

// repairFlags looks for one wrong bit in the flags of the directory's entries, and in the
// entries whose blocks do not verify.
func (d *Damaged) repairFlags() bool {
	if d.directorySum == 0 {
		return false // the footer is lost
	}
	var suspects []int
	d.each(func(b int, _ *view, err error) {
		if err != nil && len(suspects) < 8 {
			suspects = append(suspects, b)
		}
	})
	budget := int64(flagsBudget)
	try := func(at int) bool {
		for bit := range 8 {
			if budget -= int64(len(d.directory)); budget < 0 {
				return false
			}
			d.directory[at] ^= 1 << bit
			if d.sumOf(d.directory, d.dirAt) == d.directorySum {
				d.proven = true
				return true
			}
			d.directory[at] ^= 1 << bit
		}
		return false
	}
	for _, b := range suspects {
		for i := range blockEntrySize {
			if try(b*blockEntrySize + i) {
				return true
			}
		}
	}
	for b := 0; len(suspects) == 0 && b < int(d.blocks); b++ {
		if try(b*blockEntrySize + 7) {
			return true
		}
	}
	return false
}

// each calls visit for the key part of each block.
func (d *Damaged) each(visit func(b int, v *view, err error)) {
	var last []byte
	d.left = d.size
	for b := range int(d.blocks) {
		v, _, _, err := d.load(b)
		if err == nil && len(last) > 0 && !v.after(last) {
			err = errOrder
		}
		if err != nil {
			visit(b, nil, err)
			continue
		}
		last = v.appendKey(last[:0], v.count-1)
		visit(b, &v, nil)
	}
}

var errOrder = fmt.Errorf("%w: order of blocks", base.ErrCorrupt)

// after reports whether no key of the block is before key.
func (v *view) after(key []byte) bool { return bytes.Compare(key, v.appendKey(nil, 0)) <= 0 }

// load returns the key part of block b and its values. bad says that only the values do
// not verify.
func (d *Damaged) load(b int) (v view, values []byte, bad, err error) {
	src := d.directory[b*blockEntrySize:][:blockEntrySize]
	var e blockEntry
	e.decode(src)
	if err := e.check(src, d.directoryAt(b), d.dataEnd); err != nil {
		return v, nil, nil, err
	}
	if d.left -= int64(e.keyLen) + int64(e.valLen); d.left < 0 {
		return v, nil, nil, base.Corrupt(e.keyOff, "blocks", "overlapping", "not overlapping")
	}
	part := d.read(e.keyOff, int64(e.keyLen))
	if got, want := d.sumOf(part, e.keyOff), d.sum(b); got != want && !mutant.On(mutant.SalvageNoSum) {
		return v, nil, nil, base.Corrupt(e.keyOff, "checksum of a block's keys", fmt.Sprintf("%#x", got), fmt.Sprintf("%#x", want))
	}
	v = makeView(e, part, d.shift)
	if err := v.check(); err != nil {
		return v, nil, nil, err
	}
	if err := v.checkOrder(); err != nil {
		return v, nil, nil, err
	}
	if !d.proven && d.strict && !v.hasFlags {
		return v, nil, nil, base.Corrupt(d.directoryAt(b), "flags of a block", "any", "ones that a checksum proves")
	}
	if !d.proven && d.index != nil && !d.indexed(b, &v) {
		return v, nil, nil, base.Corrupt(d.directoryAt(b), "hash index", "other keys", "those of the block")
	}
	values, bad = d.values(b, &v)
	if bad != nil && !d.proven {
		return v, nil, nil, bad
	}
	return v, values, bad, nil
}

func (d *Damaged) directoryAt(b int) int64 { return d.dirAt + int64(b)*blockEntrySize }

func (d *Damaged) sum(i int) uint64 { return binary.LittleEndian.Uint64(d.sums[sumSize*i:]) }

// values returns the decoded values of a block.
func (d *Damaged) values(b int, v *view) ([]byte, error) {
	stored := d.read(v.valOff, int64(v.valLen))
	if got, want := d.sumOf(stored, v.valOff), d.sum(int(d.blocks)+b); got != want && !mutant.On(mutant.SalvageNoSum) {
		return nil, base.Corrupt(v.valOff, "checksum of a block's values", fmt.Sprintf("%#x", got), fmt.Sprintf("%#x", want))
	}
	if v.codec == codec.None {
		return stored, nil
	}
	raw := make([]byte, v.rawLen())
	return raw, v.codec.Decode(raw, stored)
}

// checkOrder reports entries of a block that are out of order.
func (v *view) checkOrder() error {
	for i := 1; i < v.count; i++ {
		c := bytes.Compare(v.suffix(i-1), v.suffix(i))
		if c > 0 || c == 0 && v.seq(i-1) <= v.seq(i) {
			return base.Corrupt(v.keyOff, "order of entries", fmt.Sprintf("entry %d before entry %d", i, i-1), "ascending keys, descending numbers")
		}
	}
	return nil
}

// indexed reports whether the hash index leads to the first entry of each key of a block.
// A key may begin in the block before. Damaged pages of the index prove nothing: if no key
// can be proven, the block does not count.
func (d *Damaged) indexed(b int, v *view) bool {
	proven := 0
	for i := range v.count {
		if i > 0 && v.same(i-1, i) {
			continue
		}
		key := v.appendKey(nil, i)
		slot, tag := d.hash.home(base.Hash(key, d.hashSeed))
		want := tag<<d.hash.posBits | ((uint64(b)<<d.hash.entryBits | uint64(i)) + 1)
		for range min(d.hash.slots, probesMax) {
			x := d.hash.load(d.index, slot)
			if x == want {
				proven++
			}
			if x == want || x == 0 {
				break
			}
			if slot++; slot == d.hash.slots {
				slot = 0
			}
		}
	}
	return proven > 0 || v.same(0, v.count-1)
}

// probesMax is how many slots a search in the hash index looks at.
const probesMax = 1 << 12

// A DamagedIter returns the entries that verify, in order.
type DamagedIter struct {
	d     *Damaged
	block int
	// Lose is called for each part that is lost.
	Lose func(Lost)

	last    []byte // the last key
	lastSeq base.SeqNum
	pending []Lost // blocks that are lost, whose last keys are not known yet
	entries []base.Entry
	keys    []byte
}

// NewIter returns an iterator at the first block. lose is called for each part that is
// lost.
func (d *Damaged) NewIter(lose func(Lost)) *DamagedIter {
	d.left = d.size
	return &DamagedIter{d: d, Lose: lose}
}

// Next returns the entries of the next block, and none at the end. They are valid until
// the next call.
func (it *DamagedIter) Next() []base.Entry {
	for it.block < int(it.d.blocks) {
		b := it.block
		it.block++
		v, values, bad, err := it.d.load(b)
		if err == nil && it.last != nil && !v.follows(it.last, it.lastSeq) {
			err = errOrder
		}
		if err != nil {
			it.pend(b, err)
			continue
		}
		it.take(&v, values, bad)
		if len(it.entries) > 0 {
			return it.entries
		}
	}
	it.settle(nil)
	return nil
}

// follows reports whether the first entry of v comes after version seq of key.
func (v *view) follows(key []byte, seq base.SeqNum) bool {
	c := bytes.Compare(key, v.appendKey(nil, 0))
	return c < 0 || c == 0 && seq > v.seq(0)
}

// pend notes that block b is lost.
func (it *DamagedIter) pend(b int, err error) {
	e := decodeBlockEntry(it.d.directory[b*blockEntrySize:])
	l := Lost{Offset: e.keyOff, Length: int64(e.keyLen), From: slices.Clone(it.last), Err: base.InFile(err, it.d.name)}
	if it.d.proven {
		l.Entries = uint64(e.count)
	}
	if n := len(it.pending); n > 0 { // consecutive blocks are one loss
		it.pending[n-1].Entries += l.Entries
		return
	}
	it.pending = append(it.pending, l)
}

// settle reports the lost blocks before key.
func (it *DamagedIter) settle(key []byte) {
	for _, l := range it.pending {
		l.To = slices.Clone(key)
		it.Lose(l)
	}
	it.pending = it.pending[:0]
}

// take makes entries of a block. Without values it takes the entries that have none.
func (it *DamagedIter) take(v *view, values []byte, bad error) {
	size := 0
	for i := range v.count {
		size += int(v.prefixLen) + len(v.suffix(i))
	}
	it.keys, it.entries = slices.Grow(it.keys[:0], size), it.entries[:0]
	var lost Lost
	for i := range v.count {
		start := len(it.keys)
		it.keys = v.appendKey(it.keys, i)
		key := it.keys[start:len(it.keys):len(it.keys)]
		if i == 0 {
			it.settle(key)
		}
		from, to := v.valueSpan(i)
		if bad != nil && to > from {
			if lost.Entries++; lost.From == nil {
				lost.From = slices.Clone(key)
			}
			lost.To = append(lost.To[:0], key...)
			continue
		}
		e := base.Entry{Key: key, Seq: v.seq(i), Meta: v.meta(i)}
		if bad == nil {
			e.Value = values[from:to:to]
		}
		it.entries = append(it.entries, e)
	}
	it.last = v.appendKey(it.last[:0], v.count-1)
	it.lastSeq = v.seq(v.count - 1)
	if lost.Entries > 0 {
		lost.Offset, lost.Length, lost.Err = v.valOff, int64(v.valLen), base.InFile(bad, it.d.name)
		it.Lose(lost)
	}
}

// Bounds returns the smallest and the largest key of the entries that verify, and false
// if there are none.
func (d *Damaged) Bounds() (lo, hi []byte, ok bool) {
	if d.props != nil && d.props.Entries > 0 {
		return d.props.Smallest, d.props.Largest, true
	}
	d.each(func(_ int, v *view, err error) {
		if err != nil {
			return
		}
		if !ok {
			lo = v.appendKey(nil, 0)
		}
		hi, ok = v.appendKey(hi[:0], v.count-1), true
	})
	return lo, hi, ok
}
