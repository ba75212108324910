package memtable

import (
	"sync/atomic"
	"unsafe"

	"github.com/stoatdb/stoat/internal/base"
)

// A Ref refers to an entry of one table: the number of its chunk above its
// position in the chunk, in units of 8 bytes. 0 refers to none.
type Ref uint32

// An entry is one version of one key, in a chunk, aligned to 8 bytes:
//
//	offset  size  field
//	0       8     word: see below
//	8       8     sequence number; of a pending entry, its place in the
//	              insertion order and above it, 4 bytes each, the death mark
//	        8     expiry in milliseconds of Unix time, if hasExpiry
//	        16    links to older versions, if hasOlder: next, jump, depth
//	              (4 bytes each), 4 bytes unused
//	              key, then value
//
// The word has, from the lowest bit, 32 bits of value length, 17 of key length less 1, and
// 8 of user byte. Then come 3 bits of kind, and one bit each for hasExpiry, hasOlder,
// isPending and isRange.
//
// A pending entry belongs to a transaction that has not committed. Its sequence number is
// the table's stamp, 0 until Stamp. When the transaction overwrites the key, the old entry
// gets a death mark. The mark is one more than the place of the new entry in the insertion
// order. So an iterator knows whether the new entry is within its view. The mark is the
// only field that changes after an entry is published. Entries that a range deletion of the
// same transaction covers get their mark later, from markDeleted.
//
// A range deletion has the beginning of the range as its key and the end as its
// value. The value is empty for the end of all keys. The entry is only in the
// insertion order, not in the index or in runs.
//
// Words are in the machine's byte order: entries never leave the process.
type entry struct{ p unsafe.Pointer }

const (
	headerSize = 16
	expirySize = 8
	linksSize  = 16

	keyLenShift = 32
	keyLenMask  = 1<<17 - 1
	userShift   = 49
	kindShift   = 57
	kindMask    = 0x7

	hasExpiry = 1 << 60
	hasOlder  = 1 << 61
	isPending = 1 << 62
	isRange   = 1 << 63

	// markShift is the first bit of the death mark of a pending entry.
	markShift = 32

	// optionalShift turns hasExpiry and hasOlder into the sizes of their fields,
	// 8 and 16. So the offset of the key needs no branch.
	optionalShift = 57
	optionalMask  = expirySize | linksSize
)

func makeWord(keyLen, valueLen int, m base.Meta) uint64 {
	w := uint64(uint32(valueLen)) | uint64(keyLen-1)<<keyLenShift |
		uint64(m.User)<<userShift | uint64(m.Kind&kindMask)<<kindShift
	if m.ExpiresAt != 0 {
		w |= hasExpiry
	}
	return w
}

// The fields of a word, and offsets that follow from it.
func wordKeyLen(w uint64) int      { return int(w>>keyLenShift&keyLenMask) + 1 }
func wordValueLen(w uint64) int    { return int(uint32(w)) }
func wordKeyOffset(w uint64) int   { return headerSize + int(w>>optionalShift&optionalMask) }
func wordKind(w uint64) base.Kind  { return base.Kind(w >> kindShift & kindMask) }
func wordLinksOffset(w uint64) int { return headerSize + int(w>>optionalShift&expirySize) }

// wordSize returns the size of an entry in bytes, before rounding up to 8.
func wordSize(w uint64) uint64 {
	return uint64(wordKeyOffset(w)) + uint64(wordKeyLen(w)) + uint64(uint32(w))
}

func (e entry) word() uint64        { return *(*uint64)(e.p) }
func (e entry) setWord(w uint64)    { *(*uint64)(e.p) = w }
func (e entry) rawSeq() uint64      { return *(*uint64)(unsafe.Add(e.p, 8)) }
func (e entry) setRawSeq(s uint64)  { *(*uint64)(unsafe.Add(e.p, 8)) = s }
func (e entry) setExpiry(ms uint64) { *(*uint64)(unsafe.Add(e.p, headerSize)) = ms }

// diesAt returns the death mark of a pending entry, or 0.
func (e entry) diesAt() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(e.p, 8))) >> markShift }

// place returns the place of a pending entry in the insertion order.
func (e entry) place() uint32 { return uint32(atomic.LoadUint64((*uint64)(unsafe.Add(e.p, 8)))) }

func (e entry) setDiesAt(mark uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(e.p, 8)), mark<<markShift|uint64(e.place()))
}

// isPoint reports whether the entry is a version of one key rather than a range
// deletion.
func (e entry) isPoint() bool { return e.word()&isRange == 0 }

// deadWithin reports whether one of the first n entries of the insertion order
// overwrote or deleted a pending entry.
func (e entry) deadWithin(w uint64, n uint32) bool {
	if w&isPending == 0 {
		return false
	}
	mark := e.diesAt()
	return mark != 0 && mark <= uint64(n)
}

// keyEnd returns the last byte of the key. It may lie in another cache line than
// the word.
func (e entry) keyEnd(w uint64) uint64 {
	return uint64(*(*byte)(unsafe.Add(e.p, wordKeyOffset(w)+wordKeyLen(w)-1)))
}

func (e entry) expiry(w uint64) uint64 {
	if w&hasExpiry == 0 {
		return 0
	}
	return *(*uint64)(unsafe.Add(e.p, headerSize))
}

func (e entry) meta(w uint64) base.Meta {
	return base.Meta{ExpiresAt: e.expiry(w), Kind: wordKind(w), User: byte(w >> userShift)}
}

func (e entry) key(w uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(e.p, wordKeyOffset(w))), wordKeyLen(w))
}

// hasKey reports whether e has the given key. The branch on the optional fields
// lets the processor guess where the key is. So it fetches the key together with
// the word, even from another cache line.
func (e entry) hasKey(key []byte) bool {
	w := e.word()
	if w&(hasExpiry|hasOlder) == 0 {
		return wordKeyLen(w) == len(key) &&
			string(unsafe.Slice((*byte)(unsafe.Add(e.p, headerSize)), len(key))) == string(key)
	}
	return string(e.key(w)) == string(key)
}

func (e entry) value(w uint64) []byte {
	n := wordValueLen(w)
	if n == 0 {
		return empty[:]
	}
	return unsafe.Slice((*byte)(unsafe.Add(e.p, wordKeyOffset(w)+wordKeyLen(w))), n)
}

// rangeEnd returns the exclusive end of the range deletion e.
func (e entry) rangeEnd(w uint64) []byte { return base.LoadedBound(e.value(w)) }

// empty is the value of entries with an empty value: present, so not nil.
var empty [0]byte

// tail returns key and value, which are contiguous.
func (e entry) tail(w uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(e.p, wordKeyOffset(w))), wordKeyLen(w)+wordValueLen(w))
}

// seq returns the sequence number of e, an entry of t.
func (t *Table) seq(e entry, w uint64) base.SeqNum {
	if w&isPending != 0 {
		return base.SeqNum(t.stamp.Load())
	}
	return base.SeqNum(e.rawSeq())
}
