package transaction

import (
	"bytes"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/stamp"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/tree"
)

// Estimate is stoat.DB.EstimateRange.
func (e *Engine) Estimate(ks *Keyspace, lo, hi []byte) (sum tree.Estimate, err error) {
	err = e.inRange(ks, lo, hi, func(v *state.View, lo, hi []byte) error {
		sum, err = estimate(v, lo, hi)
		return err
	})
	return sum, err
}

// Split is stoat.DB.SplitRange.
func (e *Engine) Split(ks *Keyspace, lo, hi []byte, n int) (keys [][]byte, err error) {
	if n < 1 {
		return nil, base.Invalid("a range cannot be split into %d parts", n)
	}
	err = e.inRange(ks, lo, hi, func(v *state.View, from, to []byte) error {
		pieces, err := piecesOf(v, from, to, n)
		if err != nil {
			return err
		}
		for _, key := range cut(pieces, n) {
			user := ks.userKey(key)
			last := lo
			if len(keys) > 0 && !mutant.On(mutant.SplitRepeats) {
				last = keys[len(keys)-1]
			}
			if bytes.Compare(user, last) > 0 && (hi == nil || bytes.Compare(user, hi) < 0) {
				keys = append(keys, user)
			}
		}
		return nil
	})
	return keys, err
}

// inRange calls do with the newest view and the stored form of the bounds.
func (e *Engine) inRange(ks *Keyspace, lo, hi []byte, do func(v *state.View, lo, hi []byte) error) (err error) {
	if ks != nil {
		if err := ks.Usable(e); err != nil {
			return err
		}
	}
	tx, slot, err := e.View()
	if err != nil {
		return err
	}
	defer tx.EndView(slot)
	defer fault.Enter().Leave(&err)
	lo, hi = ks.Range(lo, hi)
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		return nil
	}
	return do(tx.s.view, lo, hi)
}

// estimate adds the memtables to the estimate of the tables.
func estimate(v *state.View, lo, hi []byte) (tree.Estimate, error) {
	sum, err := v.Tree.Estimate(lo, hi)
	if mutant.On(mutant.EstimateTablesOnly) {
		return sum, err
	}
	for _, t := range v.Memtables {
		n, _, e := t.Within(lo, hi, 0)
		if err == nil {
			err = e
		}
		sum.Bytes += bytesOf(t, n)
		sum.Keys += max(0, int64(n)-int64(float64(t.Deletions())*float64(n)/float64(max(t.Len(), 1))))
	}
	return sum, err
}

// bytesOf returns about how many bytes n entries of t have.
func bytesOf(t *memtable.Table, n int) int64 {
	return int64(float64(t.ShownBytes()) * float64(n) / float64(max(t.Len(), 1)))
}

// piecesOf returns the pieces of a range that is to be cut into n parts.
func piecesOf(v *state.View, lo, hi []byte, n int) ([]tree.Piece, error) {
	n = min(n, partsMax)
	sum, err := estimate(v, lo, hi)
	if err != nil {
		return nil, err
	}
	all, err := v.Tree.Pieces(lo, hi, sum.Bytes/int64(piecesPerPart*n))
	for _, t := range v.Memtables {
		entries, keys, e := t.Within(lo, hi, piecesPerPart*n)
		if err == nil {
			err = e
		}
		for _, key := range keys {
			all = append(all, tree.Piece{From: key, Bytes: bytesOf(t, entries) / int64(len(keys))})
		}
	}
	return all, err
}

const (
	// piecesPerPart is how many pieces a part consists of. So parts differ by a few
	// percent.
	piecesPerPart = 32
	// partsMax bounds the memory for pieces.
	partsMax = 1 << 14
)

// cut returns up to n-1 ascending keys that cut the pieces into parts of equal size.
func cut(pieces []tree.Piece, n int) (keys [][]byte) {
	slices.SortFunc(pieces, func(a, b tree.Piece) int { return bytes.Compare(a.From, b.From) })
	total := 0.0
	for _, p := range pieces {
		total += float64(p.Bytes)
	}
	sum, part := 0.0, 1
	for _, p := range pieces {
		if part < n && sum > 0 && sum >= total*float64(part)/float64(n) {
			keys = append(keys, p.From)
			part = int(sum*float64(n)/total) + 1
		}
		sum += float64(p.Bytes)
	}
	return keys
}

// userKey returns the user's key of the beginning of a stored key of k, in memory of its
// own.
func (k *Keyspace) userKey(stored []byte) []byte {
	key := stored[min(k.translation().Skip(stored), len(stored)):]
	if k != nil && k.versions != nil {
		return stamp.Beginning(key)
	}
	return bytes.Clone(key)
}
