package iter

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
)

// BatchSize is how many entries a source decodes ahead at most. In a batch the
// processor overlaps the cache misses of neighbouring entries. The batch also
// spreads the cost of one dynamic call over its keys.
const BatchSize = 32

// A Batch is a run of consecutive entries of one source. Its slices are borrowed from
// the source. Keys and values in a memtable or a mapped file stay valid as long as the
// reader's snapshot. Keys that a source had to rebuild stay valid until its next Fill.
type Batch struct {
	// Want is the number of entries that the reader asks for, 1 to BatchSize. A
	// source fills at most that many. A seek asks for few, a scan for all.
	Want int
	// Bound is where the reader stops, or nil. It needs no keys from Bound on or, backward,
	// below Bound. A source may treat damage that lies only there as its end.
	Bound []byte
	// N is the number of entries in the batch. Zero after Fill means the end.
	N int
	// Plain says that all keys of the batch differ, and that each entry has a value that
	// does not expire. A source may leave it false. The reader clears it before Fill.
	Plain bool

	Entries [BatchSize]base.Entry
}

// IsPlain reports whether Plain may be set. It is for tests and invariants.
func (b *Batch) IsPlain() bool {
	for i, e := range b.Entries[:b.N] {
		if !e.Meta.Kind.HasValue() || e.Meta.ExpiresAt > 0 || i > 0 && bytes.Equal(e.Key, b.Entries[i-1].Key) {
			return false
		}
	}
	return true
}

// A Source iterates over the entries of one sorted structure, in one direction
// that is fixed when the source is created. Forward, entries come in ascending
// order of keys and, within a key, newest first (descending sequence numbers).
// Backward is the exact reverse: descending keys and, within a key, oldest
// first. Keys are not empty.
//
// One goroutine uses a source at a time.
type Source interface {
	// Seek positions the source. Forward: at the first entry with key >= key.
	// Backward: at the last entry with key < key. A nil key means the first
	// entry forward and the last entry backward.
	Seek(key []byte)

	// Fill replaces the contents of b with the next entries, at most b.Want, and
	// moves past them. b.N is zero at the end and on an error.
	Fill(b *Batch) error
}

// A Group positions several sources at once, so that their memory accesses
// overlap.
type Group interface {
	// Seek positions all sources of the group as Source.Seek does.
	Seek(key []byte)
}
