package readset

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
)

// A keyLog keeps keys one after the other. Two bytes before each key hold its
// length. If the length is longKey or more, the two bytes hold longKey, and four
// more hold the length. Adding is cheap, because every read of a read-write
// transaction adds a key. Commit searches the log only if another transaction
// has deleted a range meanwhile.
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
	longKey     = 1<<16 - 1
)

func (l *keyLog) add(key []byte) {
	if len(key) >= longKey {
		l.addLong(key)
		return
	}
	if len(l.tip)-l.used < len(key)+2 {
		l.extend(len(key) + 2)
	}
	b := l.tip[l.used:]
	binary.LittleEndian.PutUint16(b, uint16(len(key)))
	l.used += 2 + copy(b[2:], key)
	l.n++
}

// addLong is add for a key of longKey bytes or more.
func (l *keyLog) addLong(key []byte) {
	if len(l.tip)-l.used < len(key)+6 {
		l.extend(len(key) + 6)
	}
	b := l.tip[l.used:]
	binary.LittleEndian.PutUint16(b, longKey)
	binary.LittleEndian.PutUint32(b[2:], uint32(len(key)))
	l.used += 6 + copy(b[6:], key)
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
			at, n := 2, int(binary.LittleEndian.Uint16(rest))
			if n == longKey {
				at, n = 6, int(binary.LittleEndian.Uint32(rest[2:]))
			}
			if !visit(rest[at : at+n : at+n]) {
				return
			}
			rest = rest[at+n:]
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
