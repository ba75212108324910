package iter

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
)

// A Cover tells which versions range tombstones hide from a snapshot.
type Cover interface {
	// At returns the sequence number of the newest visible range tombstone that
	// covers key, or 0 if none does. It hides older versions of the key. The
	// answer holds up to until, in the direction of iteration. Forward it holds
	// for keys from key on that are less than until; backward for keys from key
	// down to until itself. A nil until is the end of all keys.
	//
	// Between two Seeks of a Visible, keys come in the direction of iteration.
	// until is borrowed until the next call.
	At(key []byte) (seq base.SeqNum, until []byte)
}

// A fragment is the latest answer of a Cover, and the range of keys for which it
// holds.
type fragment struct {
	by      Cover // nil if no tombstone exists
	reverse bool

	known bool
	seq   base.SeqNum
	until []byte
	// hidden counts the keys that the fragment has hidden.
	hidden int
}

// passMin is how many keys a fragment must have hidden before a source seeks to
// its end. For fewer keys, walking is cheaper.
const passMin = BatchSize / 2

func (f *fragment) forget() { f.known, f.until = false, nil }

// over returns the sequence number of the newest range tombstone over key.
func (f *fragment) over(key []byte) base.SeqNum {
	if !f.known || !f.reaches(key) {
		f.seq, f.until = f.by.At(key)
		f.known, f.hidden = true, 0
	}
	return f.seq
}

// reaches reports whether the answer holds for key. key must not come before the
// keys of earlier calls, in the direction of iteration.
func (f *fragment) reaches(key []byte) bool {
	if f.until == nil {
		return true
	}
	if f.reverse {
		return bytes.Compare(key, f.until) >= 0
	}
	return bytes.Compare(key, f.until) < 0
}

// hides reports whether a range tombstone covers the version of key at seq.
func (f *fragment) hides(key []byte, seq base.SeqNum) bool {
	if seq >= f.over(key) {
		return false
	}
	f.hidden++
	return true
}

// pass moves the source of c to the end of the fragment, if the fragment hides
// all entries of the source before that end. The batch of c must be used up. Its
// last entry lies before the end of the fragment, so pass never moves backward.
func (f *fragment) pass(c *cursor) {
	if f.by == nil || c.maxSeq == 0 || c.pending || c.ended || f.hidden < passMin {
		return
	}
	if c.maxSeq >= f.over(c.lastKey()) || f.hidden < passMin {
		return
	}
	if f.until == nil {
		c.ended = true
		return
	}
	c.source.Seek(f.until)
}
