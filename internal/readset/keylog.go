package readset

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
)

// A keyLog keeps keys one after the other, each behind its length, an unsigned varint.
// Adding is cheap, because every read of a read-write transaction adds a key. Commit
// searches the log only if another transaction has deleted a range meanwhile.
type keyLog struct {
	tip  []byte // the chunk that takes the next key, at used
	used int
	full [][]byte // the chunks before it
	n    int      // number of keys
	// scans counts the scans of the whole log. After scansMax of them, the log
	// sorts the keys.
	scans  int
	sorted [][]byte
}

const (
	keyChunkMin = 1 << 10
	keyChunkMax = 64 << 10
	scansMax    = 8
	// lengthMax is the most bytes that the length of a key takes.
	lengthMax = binary.MaxVarintLen32
)

func (l *keyLog) add(key []byte) {
	if len(l.tip)-l.used < len(key)+lengthMax {
		l.extend(len(key) + lengthMax)
	}
	b := l.tip[l.used:]
	n := binary.PutUvarint(b, uint64(len(key)))
	l.used += n + copy(b[n:], key)
	l.n++
}

// extend begins a chunk with room for n bytes.
func (l *keyLog) extend(n int) {
	if l.used > 0 {
		l.full = append(l.full, l.tip[:l.used])
	}
	size := min(max(2*len(l.tip), keyChunkMin), keyChunkMax)
	l.tip, l.used = make([]byte, max(size, n)), 0
}

// reset empties the log and keeps a chunk of moderate size.
func (l *keyLog) reset() {
	if l.scans = 0; l.n == 0 {
		return
	}
	tip := l.tip
	if len(tip) > keyChunkMax {
		tip = nil
	}
	*l = keyLog{tip: tip}
}

// bytes returns how much memory the log takes.
func (l *keyLog) bytes() int64 {
	const sliceSize = 24 // in bytes
	bytes := int64(len(l.tip) + sliceSize*(cap(l.full)+cap(l.sorted)))
	for _, chunk := range l.full {
		bytes += int64(cap(chunk))
	}
	return bytes
}

// each calls visit for every key until it returns false.
func (l *keyLog) each(visit func(key []byte) bool) {
	for i := range len(l.full) + 1 {
		rest := l.tip[:l.used]
		if i < len(l.full) {
			rest = l.full[i]
		}
		for len(rest) > 0 {
			n, at := binary.Uvarint(rest)
			end := at + int(n)
			if !visit(rest[at:end:end]) {
				return
			}
			rest = rest[end:]
		}
	}
}

// has reports whether a key of [lo, hi) is in the log. A nil hi means no end.
func (l *keyLog) has(lo, hi []byte) bool {
	if l.scans++; l.scans > scansMax {
		return l.search(lo, hi)
	}
	found := false
	l.each(func(key []byte) bool {
		found = bytes.Compare(key, lo) >= 0 && (hi == nil || bytes.Compare(key, hi) < 0)
		return !found
	})
	return found
}

func (l *keyLog) search(lo, hi []byte) bool {
	if len(l.sorted) != l.n {
		l.sorted = make([][]byte, 0, l.n)
		l.each(func(key []byte) bool {
			l.sorted = append(l.sorted, key)
			return true
		})
		slices.SortFunc(l.sorted, bytes.Compare)
	}
	i := sort.Search(len(l.sorted), func(i int) bool { return bytes.Compare(l.sorted[i], lo) >= 0 })
	return i < len(l.sorted) && (hi == nil || bytes.Compare(l.sorted[i], hi) < 0)
}
