package tree

import (
	"bytes"
	"iter"

	"github.com/stoatdb/stoat/internal/base"
)

// Cuts calls yield with ascending keys between lo and hi, until yield returns false. The
// keys cut the range into parts of about size bytes, values in value files included. nil
// is no bound. A key is where a table or a block of the largest level begins. The caller
// must not change it. Tables that have nothing newer than least count nothing.
func (v *View) Cuts(lo, hi []byte, least base.SeqNum, size int64, yield func(key []byte) bool) error {
	since, going := int64(0), true // bytes since the last cut
	cut := func(key []byte) {
		if going && bytes.Compare(key, lo) > 0 && (hi == nil || bytes.Compare(key, hi) < 0) {
			going = yield(key)
		}
	}
	for t := range v.largest(lo, hi, least).within(lo, hi) {
		if !going {
			break
		}
		if t.LargestSeq <= least {
			continue
		}
		if since >= size {
			since = 0
			cut(t.Smallest)
		}
		parts := (since + weight(t)) / size
		if parts < 2 {
			since += weight(t)
			continue
		}
		keys, err := v.cutsOf(t, int(min(parts, cutsMax)))
		if err != nil {
			return err
		}
		for _, key := range keys {
			cut(key)
		}
		since = weight(t) / int64(len(keys)+1)
	}
	return nil
}

// cutsMax is the greatest number of parts of one table.
const cutsMax = 1 << 16

func (v *View) cutsOf(t *Table, parts int) ([][]byte, error) {
	r, err := v.files.reader(t)
	if err != nil {
		return nil, err
	}
	return r.Cuts(parts)
}

// weight returns how many bytes a scan of a table reads.
func weight(t *Table) int64 { return t.Size + int64(t.Referred()) }

// largest returns the level with the most bytes between two keys, in tables with anything
// newer than least. A view without tables has an empty one.
func (v *View) largest(lo, hi []byte, least base.SeqNum) *level {
	most, largest := int64(-1), new(level)
	for i := range v.levels {
		sum := int64(0)
		for t := range v.levels[i].within(lo, hi) {
			if t.LargestSeq > least {
				sum += weight(t)
			}
		}
		if sum > most {
			most, largest = sum, &v.levels[i]
		}
	}
	return largest
}

// within yields the tables with keys from lo, inclusive, to hi, exclusive. nil is no bound.
func (l *level) within(lo, hi []byte) iter.Seq[*Table] {
	return func(yield func(*Table) bool) {
		for i := l.from(lo); i < len(l.tables); i++ {
			if t := l.tables[i]; hi != nil && bytes.Compare(t.Smallest, hi) >= 0 || !yield(t) {
				return
			}
		}
	}
}

// NewerWithin reports whether a table that may have keys from lo, inclusive, to hi,
// exclusive, has anything newer than since.
func (v *View) NewerWithin(lo, hi []byte, since base.SeqNum) bool {
	for i := range v.levels {
		if v.levels[i].newest <= since {
			continue
		}
		for t := range v.levels[i].within(lo, hi) {
			if t.LargestSeq > since {
				return true
			}
		}
	}
	return false
}
