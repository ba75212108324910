package iter

import "github.com/stoatdb/stoat/internal/base"

// BatchSize is how many entries a source decodes ahead at most. Decoding in
// batches lets the processor overlap the cache misses of neighbouring
// entries, and makes the one dynamic call to the source cost next to nothing
// per key.
const BatchSize = 32

// A Batch is a run of consecutive entries of one source, as columns. The
// slices in it are borrowed from the source: keys and values in a memtable or
// a mapped file stay valid as long as the reader's snapshot, keys that a
// source had to rebuild stay valid until its next Fill.
type Batch struct {
	// Want is how many entries the reader hopes for, 1 to BatchSize; a source
	// fills at most that many. A seek asks for few, a scan for all.
	Want int
	// N is how many entries there are. Zero after Fill means the end.
	N int

	Keys  [BatchSize][]byte
	Vals  [BatchSize][]byte
	Seqs  [BatchSize]base.SeqNum
	Metas [BatchSize]base.Meta
}

// A Source shows the entries of one sorted structure, in one direction fixed
// when it was made. Forward, entries come in ascending order of keys and,
// within a key, newest first (descending sequence numbers). Backward is the
// exact reverse: descending keys and, within a key, oldest first. Keys are not
// empty.
//
// A source is used by one goroutine at a time.
type Source interface {
	// Seek positions the source. Forward: at the first entry with key >= key.
	// Backward: at the last entry with key < key. A nil key means the first
	// entry forward and the last entry backward.
	Seek(key []byte)

	// Fill replaces the contents of b with the next entries, at most b.Want,
	// and moves past them. b.N is zero at the end and on an error.
	Fill(b *Batch) error
}

// A Group positions several sources at once, which lets it wait for the memory
// of all of them together.
type Group interface {
	// Seek positions all sources of the group as Source.Seek does.
	Seek(key []byte)
}
