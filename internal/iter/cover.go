package iter

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
)

// A Cover tells what the range deletions hide that a snapshot sees.
type Cover interface {
	// At returns the sequence number of the newest of them that covers key,
	// or 0 if none does: versions of the key that are older are hidden. The
	// answer holds up to until, in the direction of iteration: forward for
	// the keys from key on that are less than until, backward for the keys
	// from key down to until itself. A nil until is the end of all keys.
	//
	// From one Seek of a Visible to the next, keys come in the direction of
	// iteration. until is borrowed until the next call.
	At(key []byte) (seq base.SeqNum, until []byte)
}

// A fragment is the latest answer of a Cover.
type fragment struct {
	by      Cover // nil when nothing is covered
	reverse bool

	known bool
	seq   base.SeqNum
	until []byte
	// hidden counts the keys hidden since the answer was given.
	hidden int
}

// passMin is how many keys a fragment must have hidden before a source is
// told to seek its end: for a few more keys walking is cheaper.
const passMin = BatchSize / 2

func (f *fragment) forget() { f.known, f.until = false, nil }

// over returns the newest range deletion over key.
func (f *fragment) over(key []byte) base.SeqNum {
	if !f.known || !f.reaches(key) {
		f.seq, f.until = f.by.At(key)
		f.known, f.hidden = true, 0
	}
	return f.seq
}

// reaches reports whether the answer holds for key, which does not come
// before those that it was known to hold for.
func (f *fragment) reaches(key []byte) bool {
	if f.until == nil {
		return true
	}
	if f.reverse {
		return bytes.Compare(key, f.until) >= 0
	}
	return bytes.Compare(key, f.until) < 0
}

// hides reports whether a version of key is covered.
func (f *fragment) hides(key []byte, seq base.SeqNum) bool {
	if seq >= f.over(key) {
		return false
	}
	f.hidden++
	return true
}

// pass moves the source of c, whose batch is used up, to the end of what is
// covered, if nothing that it has can be seen before that. The last entry of
// the batch lies before that end, so this never goes back.
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
