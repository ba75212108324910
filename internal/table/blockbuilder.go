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
	// A summary of the entries. It saves the layout another look at each of them.
	leastSeq, mostSeq           base.SeqNum
	keysDiffer, valuesDiffer    bool // in length
	hasFlags, hasUsers, expires bool // flags differ; an entry has a user byte, or expires
}

func (b *blockBuilder) count() int { return len(b.seqs) }

func (b *blockBuilder) reset() {
	b.keys, b.values, b.solo = b.keys[:0], b.values[:0], nil
	b.kEnds, b.vEnds, b.seqs, b.metas = b.kEnds[:0], b.vEnds[:0], b.seqs[:0], b.metas[:0]
}

// add appends an entry. shared is the number of bytes that its key shares with
// the previous key. Keys ascend, so the smallest of these is the common prefix.
func (b *blockBuilder) add(e *base.Entry, shared int) {
	if b.count() == 0 {
		b.begin(e)
	} else {
		b.prefixLen = min(b.prefixLen, shared)
		b.leastSeq, b.mostSeq = min(b.leastSeq, e.Seq), max(b.mostSeq, e.Seq)
		b.keysDiffer = b.keysDiffer || len(e.Key) != b.kEnds[0]
		b.valuesDiffer = b.valuesDiffer || len(e.Value) != b.vEnds[0]
		b.hasFlags = b.hasFlags || flagsOf(e.Meta) != flagsOf(b.metas[0])
		b.hasUsers = b.hasUsers || e.Meta.User != 0
		b.expires = b.expires || e.Meta.ExpiresAt != 0
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

// begin starts the summary of a block with its first entry.
func (b *blockBuilder) begin(e *base.Entry) {
	b.prefixLen, b.pointers = min(len(e.Key), 1<<16-1), 0
	b.leastSeq, b.mostSeq = e.Seq, e.Seq
	b.keysDiffer, b.valuesDiffer, b.hasFlags = false, false, false
	b.hasUsers, b.expires = e.Meta.User != 0, e.Meta.ExpiresAt != 0
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
	e.seqs = widthFor(uint64(b.mostSeq - b.leastSeq))
	e.hasFlags, e.hasUsers, e.hasExpiries = b.hasFlags, b.hasUsers, b.expires
	if !e.hasFlags {
		e.flags = flagsOf(b.metas[0])
	}
	if b.expires {
		least, most := b.expiries()
		e.expiries = widthFor(most - least)
	}
	return e
}

// layKeys chooses between one length for all suffixes and a column of ends.
func (b *blockBuilder) layKeys(e *blockEntry) {
	if n := b.kEnds[0] - b.prefixLen; !b.keysDiffer && n < 1<<16 {
		e.suffixLen = uint16(n)
	} else {
		e.kEnds = widthFor(uint64(len(b.keys) - b.count()*b.prefixLen))
	}
}

// layValues does the same for values.
func (b *blockBuilder) layValues(e *blockEntry) {
	if e.valueLen = uint32(b.vEnds[0]); b.valuesDiffer {
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

// appendKeyPart appends the key part in the layout of e; see view. Columns of width 0 have
// no bytes.
func (b *blockBuilder) appendKeyPart(dst []byte, e *blockEntry) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(b.leastSeq))
	firstExpiry := uint64(0)
	if e.hasExpiries {
		firstExpiry, _ = b.expiries()
		dst = binary.LittleEndian.AppendUint64(dst, firstExpiry)
	}
	dst = append(dst, b.keys[:b.prefixLen]...)
	if e.kEnds != width0 {
		for i, end := range b.kEnds {
			dst = e.kEnds.append(dst, uint64(end-(i+1)*b.prefixLen))
		}
	}
	if e.vEnds != width0 {
		for _, end := range b.vEnds {
			dst = e.vEnds.append(dst, uint64(end))
		}
	}
	if e.seqs != width0 {
		for _, s := range b.seqs {
			dst = e.seqs.append(dst, uint64(s-b.leastSeq))
		}
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
	if e.expiries != width0 {
		for _, m := range b.metas {
			dst = e.expiries.append(dst, max(m.ExpiresAt, firstExpiry)-firstExpiry)
		}
	}
	if e.hasUsers {
		for _, m := range b.metas {
			dst = append(dst, m.User)
		}
	}
	return dst
}
