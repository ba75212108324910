package tree

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
)

// Cuts calls yield with ascending keys between lo and hi, until yield returns false. The
// keys cut the range into parts of about size bytes, values in value files included. nil
// is no bound. A key is where a table or a block of the largest level begins. The caller
// must not change it. Tables that have nothing newer than least count nothing.
func (v *View) Cuts(lo, hi []byte, least base.SeqNum, size int64, yield func(key []byte) bool) (err error) {
	since, going := int64(0), true // bytes since the last cut
	cut := func(key []byte) {
		if going && bytes.Compare(key, lo) > 0 && (hi == nil || bytes.Compare(key, hi) < 0) {
			going = yield(key)
		}
	}
	v.largest(lo, hi, least).within(lo, hi, func(t *Table) bool {
		if t.LargestSeq <= least {
			return going
		}
		if since >= size {
			since = 0
			cut(t.Smallest)
		}
		parts := (since + weight(t)) / size
		if parts < 2 {
			since += weight(t)
			return going
		}
		var keys [][]byte
		if keys, err = v.cutsOf(t, int(min(parts, cutsMax))); err != nil {
			return false
		}
		for _, key := range keys {
			cut(key)
		}
		since = weight(t) / int64(len(keys)+1)
		return going
	})
	return err
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
		v.levels[i].within(lo, hi, func(t *Table) bool {
			if t.LargestSeq > least {
				sum += weight(t)
			}
			return true
		})
		if sum > most {
			most, largest = sum, &v.levels[i]
		}
	}
	return largest
}

// within calls visit for the tables with keys from lo, inclusive, to hi, exclusive, until
// visit returns false.
func (l *level) within(lo, hi []byte, visit func(t *Table) bool) {
	for i := l.from(lo); i < len(l.tables); i++ {
		if t := l.tables[i]; hi != nil && bytes.Compare(t.Smallest, hi) >= 0 || !visit(t) {
			return
		}
	}
}

// NewerWithin reports whether a table that may have keys from lo, inclusive, to hi,
// exclusive, has anything newer than since.
func (v *View) NewerWithin(lo, hi []byte, since base.SeqNum) (newer bool) {
	for i := range v.levels {
		if v.levels[i].newest > since {
			v.levels[i].within(lo, hi, func(t *Table) bool {
				newer = newer || t.LargestSeq > since
				return !newer
			})
		}
	}
	return newer
}
