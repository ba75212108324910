package tree

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/mutant"
)

// An Estimate says about what a range of keys has in the tables of a view. Versions of a
// key in several levels count as several keys, and each tombstone takes one away.
type Estimate struct {
	Keys, Bytes int64 // the bytes are those of tables and value files
}

// A Piece is a part of a range: where it begins, and about how many bytes it has. Pieces
// of different levels overlap.
type Piece struct {
	From  []byte
	Bytes int64
}

// Estimate returns about what the range from lo, inclusive, to hi, exclusive, has. nil is
// no bound. It opens the tables at the bounds. It reads blocks only where the fences do not tell
// keys apart.
func (v *View) Estimate(lo, hi []byte) (sum Estimate, err error) {
	err = v.overlapping(lo, hi, func(t *Table) error {
		e, err := v.estimate(t, lo, hi)
		sum.Keys += e.Keys
		sum.Bytes += e.Bytes
		return err
	})
	return sum, err
}

// Pieces returns pieces of the range of at most about size bytes, in no order.
func (v *View) Pieces(lo, hi []byte, size int64) (all []Piece, err error) {
	err = v.overlapping(lo, hi, func(t *Table) error {
		e, err := v.estimate(t, lo, hi)
		if err != nil {
			return err
		}
		from := t.Smallest
		if bytes.Compare(from, lo) < 0 {
			from = lo
		}
		var keys [][]byte
		if n := e.Bytes / max(size, 1); n > 0 {
			r, err := v.files.reader(t)
			if err != nil {
				return err
			}
			if keys, err = r.Separators(lo, hi, int(min(n, piecesMax))); err != nil {
				return err
			}
		}
		each := e.Bytes / int64(len(keys)+1)
		all = append(all, Piece{from, each})
		for _, key := range keys {
			all = append(all, Piece{key, each})
		}
		return nil
	})
	return all, err
}

// piecesMax is the greatest number of pieces of one table.
const piecesMax = 1 << 16

// estimate is Estimate for one table.
func (v *View) estimate(t *Table, lo, hi []byte) (e Estimate, err error) {
	all := int64(t.Entries)
	keys := int64(t.Keys)
	if keys == 0 {
		keys = all
	}
	keys = max(0, keys-int64(t.Deletions))
	if bytes.Compare(lo, t.Smallest) <= 0 && (hi == nil || t.EndsBefore(hi)) {
		return Estimate{keys, weight(t)}, nil
	}
	r, err := v.files.reader(t)
	if err != nil || all == 0 {
		return e, err
	}
	entries, size, err := r.Part(lo, hi)
	share := func(of int64, part, whole int64) int64 {
		return int64(float64(of) * float64(part) / float64(max(whole, 1)))
	}
	return Estimate{
		Keys:  share(keys, entries, all),
		Bytes: share(t.Size, size, r.Properties().DataSize) + share(int64(t.Referred()), entries, all),
	}, err
}

// overlapping calls visit for the tables that may have keys from lo to hi, until visit
// returns an error.
func (v *View) overlapping(lo, hi []byte, visit func(t *Table) error) error {
	for i := range v.levels {
		l := &v.levels[i]
		for t := range l.within(lo, hi) {
			if err := visit(t); err != nil {
				return err
			}
		}
		if mutant.On(mutant.EstimateFirstLevel) && l.from(lo) < len(l.tables) {
			break
		}
	}
	return nil
}
