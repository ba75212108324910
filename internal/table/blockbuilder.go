package table

import (
	"encoding/binary"

	"github.com/stoatdb/stoat/internal/base"
)

// A blockBuilder collects the entries of one block and lays out its key part.
type blockBuilder struct {
	keys   []byte // whole keys, one after the other
	values []byte
	// solo is the value of a block with one large value. It is not copied.
	solo []byte

	kEnds []int // in keys
	vEnds []int // in the values
	seqs  []base.SeqNum
	metas []base.Meta
	// prefixLen is the number of bytes that all keys share.
	prefixLen int
	pointers  int // number of values that are pointers
}

func (b *blockBuilder) count() int { return len(b.seqs) }

func (b *blockBuilder) reset() {
	b.keys, b.values, b.solo = b.keys[:0], b.values[:0], nil
	b.kEnds, b.vEnds, b.seqs, b.metas = b.kEnds[:0], b.vEnds[:0], b.seqs[:0], b.metas[:0]
	b.pointers = 0
}

// add appends an entry. shared is the number of bytes that its key shares with
// the previous key. Keys ascend, so the smallest of these is the common prefix.
func (b *blockBuilder) add(e *base.Entry, shared int) {
	if b.count() == 0 {
		b.prefixLen = min(len(e.Key), 1<<16-1)
	} else {
		b.prefixLen = min(b.prefixLen, shared)
	}
	b.keys = append(b.keys, e.Key...)
	if b.count() == 0 && len(e.Value) > soloMin {
		b.solo = e.Value
	} else {
		b.values = append(b.values, e.Value...)
	}
	b.kEnds = append(b.kEnds, len(b.keys))
	b.vEnds = append(b.vEnds, len(b.values)+len(b.solo))
	b.seqs = append(b.seqs, e.Seq)
	b.metas = append(b.metas, e.Meta)
	if e.Meta.Kind == base.KindPointer {
		b.pointers++
	}
}

// mostlyPointers reports whether most entries are pointers. Such a block is not
// compressed: compression would save few bytes, and each read of a long value
// would have to decode the block first.
func (b *blockBuilder) mostlyPointers() bool { return 2*b.pointers > b.count() }

// keySize estimates the size of the key part after adding a key of n bytes that
// shares that many bytes with the last one.
func (b *blockBuilder) keySize(n, shared int) int {
	prefix, count := min(b.prefixLen, shared), b.count()+1
	return len(b.keys) + n - (count-1)*prefix + 3*count
}

func (b *blockBuilder) valueSize() int { return len(b.values) + len(b.solo) }

// rawValues returns the values of the block, one after the other.
func (b *blockBuilder) rawValues() []byte {
	if b.solo != nil {
		return b.solo
	}
	return b.values
}

// entry returns the directory entry, without offsets and stored lengths.
func (b *blockBuilder) entry() blockEntry {
	e := blockEntry{count: b.count(), prefixLen: uint16(b.prefixLen)}
	b.layKeys(&e)
	b.layValues(&e)
	least, most := b.seqs[0], b.seqs[0]
	for _, s := range b.seqs {
		least, most = min(least, s), max(most, s)
	}
	e.seqs = widthFor(uint64(most - least))
	e.flags = flagsOf(b.metas[0])
	for _, m := range b.metas {
		e.hasFlags = e.hasFlags || flagsOf(m) != e.flags
		e.hasUsers = e.hasUsers || m.User != 0
		e.hasExpiries = e.hasExpiries || m.ExpiresAt != 0
	}
	if e.hasFlags {
		e.flags = 0
	}
	if least, most := b.expiries(); e.hasExpiries {
		e.expiries = widthFor(most - least)
	}
	return e
}

// layKeys chooses between one length for all suffixes and a column of ends.
func (b *blockBuilder) layKeys(e *blockEntry) {
	first, equal := b.kEnds[0], true
	for i := 1; i < len(b.kEnds); i++ {
		equal = equal && b.kEnds[i]-b.kEnds[i-1] == first
	}
	if n := first - b.prefixLen; equal && n < 1<<16 {
		e.suffixLen = uint16(n)
	} else {
		e.kEnds = widthFor(uint64(len(b.keys) - b.count()*b.prefixLen))
	}
}

// layValues does the same for values.
func (b *blockBuilder) layValues(e *blockEntry) {
	first, equal := b.vEnds[0], true
	for i := 1; i < len(b.vEnds); i++ {
		equal = equal && b.vEnds[i]-b.vEnds[i-1] == first
	}
	if e.valueLen = uint32(first); !equal {
		e.valueLen = uint32(b.valueSize())
		e.vEnds = widthFor(uint64(b.valueSize()))
	}
}

// expiries returns the smallest and the largest expiry time, or 0.
func (b *blockBuilder) expiries() (least, most uint64) {
	for _, m := range b.metas {
		if x := m.ExpiresAt; x != 0 {
			if least == 0 {
				least = x
			}
			least, most = min(least, x), max(most, x)
		}
	}
	return least, most
}

func flagsOf(m base.Meta) uint8 {
	f := uint8(m.Kind)
	if m.ExpiresAt != 0 {
		f |= flagExpires
	}
	return f
}

// appendKeyPart appends the key part in the layout of e; see view.
func (b *blockBuilder) appendKeyPart(dst []byte, e *blockEntry) []byte {
	least := b.seqs[0]
	for _, s := range b.seqs {
		least = min(least, s)
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(least))
	firstExpiry, _ := b.expiries()
	if e.hasExpiries {
		dst = binary.LittleEndian.AppendUint64(dst, firstExpiry)
	}
	dst = append(dst, b.keys[:b.prefixLen]...)
	for i, end := range b.kEnds {
		dst = e.kEnds.append(dst, uint64(end-(i+1)*b.prefixLen))
	}
	for _, end := range b.vEnds {
		dst = e.vEnds.append(dst, uint64(end))
	}
	for _, s := range b.seqs {
		dst = e.seqs.append(dst, uint64(s-least))
	}
	dst = b.appendMetas(dst, e, firstExpiry)
	from := 0
	for _, end := range b.kEnds {
		dst = append(dst, b.keys[from+b.prefixLen:end]...)
		from = end
	}
	return dst
}

func (b *blockBuilder) appendMetas(dst []byte, e *blockEntry, firstExpiry uint64) []byte {
	if e.hasFlags {
		for _, m := range b.metas {
			dst = append(dst, flagsOf(m))
		}
	}
	for _, m := range b.metas {
		dst = e.expiries.append(dst, max(m.ExpiresAt, firstExpiry)-firstExpiry)
	}
	if e.hasUsers {
		for _, m := range b.metas {
			dst = append(dst, m.User)
		}
	}
	return dst
}
