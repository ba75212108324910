package readset

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
)

// A keyLog keeps keys one after the other, each behind its length, an unsigned varint.
// Adding is cheap, because every read of a read-write transaction adds a key. Commit
// searches the log only if another transaction has deleted a range meanwhile. It goes
// through the log if a level has several tables newer than the transaction.
type keyLog struct {
	tip  []byte // the chunk that takes the next key, at used
	used int
	full []keyChunk // the chunks before it
	n    int        // number of keys
	// scanned counts the chunks that were searched for a range. After scansMax searches
	// of all chunks, the log sorts the keys.
	scanned int
	sorted  [][]byte
}

// A keyChunk is a full chunk of a keyLog. From the first search on, a chunk of keyChunkMax or
// more has its least and its greatest key, which lie in it. A smaller one has nil, because few
// keys need no bounds.
type keyChunk struct {
	keys        []byte
	least, most []byte
}

const (
	// keyChunkMin and keyChunkMax bound the sizes of chunks in bytes. A chunk for a long key
	// may be larger.
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
		l.full = append(l.full, keyChunk{keys: l.tip[:l.used]})
	}
	size := min(max(2*len(l.tip), keyChunkMin), keyChunkMax)
	l.tip, l.used = make([]byte, max(size, n)), 0
}

// reset empties the log and keeps a chunk of moderate size.
func (l *keyLog) reset() {
	if l.scanned = 0; l.n == 0 {
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
	bytes := int64(len(l.tip) + sliceSize*(3*cap(l.full)+cap(l.sorted)))
	for i := range l.full {
		bytes += int64(cap(l.full[i].keys))
	}
	return bytes
}

// each calls visit for every key until it returns false.
func (l *keyLog) each(visit func(key []byte) bool) {
	for i := range l.full {
		if !eachOf(l.full[i].keys, visit) {
			return
		}
	}
	eachOf(l.tip[:l.used], visit)
}

// eachOf calls visit for every key of a chunk until it returns false. It reports whether
// visit never did.
func eachOf(chunk []byte, visit func(key []byte) bool) bool {
	for len(chunk) > 0 {
		n, at := binary.Uvarint(chunk)
		end := at + int(n)
		if !visit(chunk[at:end:end]) {
			return false
		}
		chunk = chunk[end:]
	}
	return true
}

// bound finds the least and the greatest key of the chunk.
func (c *keyChunk) bound() {
	eachOf(c.keys, func(key []byte) bool {
		if c.least == nil || bytes.Compare(key, c.least) < 0 {
			c.least = key
		}
		if bytes.Compare(key, c.most) > 0 {
			c.most = key
		}
		return true
	})
}

// mayHave reports whether the bounds of the chunk admit a key of [lo, hi). It finds them once,
// here and not in add, because few transactions are searched.
func (c *keyChunk) mayHave(lo, hi []byte) bool {
	if c.least == nil && cap(c.keys) >= keyChunkMax {
		c.bound()
	}
	return c.least == nil || bytes.Compare(c.most, lo) >= 0 && (hi == nil || bytes.Compare(c.least, hi) < 0)
}

// has reports whether a key of [lo, hi) is in the log. A nil hi means no end.
func (l *keyLog) has(lo, hi []byte) bool {
	if l.scanned >= scansMax*(len(l.full)+1) {
		return l.search(lo, hi)
	}
	outside := func(key []byte) bool {
		return bytes.Compare(key, lo) < 0 || hi != nil && bytes.Compare(key, hi) >= 0
	}
	for i := range l.full {
		if c := &l.full[i]; c.mayHave(lo, hi) {
			if l.scanned++; !eachOf(c.keys, outside) {
				return true
			}
		}
	}
	l.scanned++
	return !eachOf(l.tip[:l.used], outside)
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
