package manifest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
)

const (
	// numberMax bounds numbers that are incremented and numbers that are summed,
	// so that neither overflows.
	numberMax = 1<<62 - 1
	// fileSizeMax bounds the size of a table or a value file in bytes. Common
	// file systems allow less.
	fileSizeMax = 1 << 46
)

// check reports a table that cannot exist.
func (t *Table) check() error {
	c := bytes.Compare(t.Smallest, t.Largest)
	largest := len(base.StoredBound(t.Largest))
	var what string
	switch {
	case t.Level < 0 || t.Level >= Levels:
		what = fmt.Sprintf("is in level %d of %d", t.Level, Levels)
	case t.Level > 0 && t.Run != 0:
		what = fmt.Sprintf("is in level %d, and in run %d", t.Level, t.Run)
	case t.Run > numberMax:
		what = fmt.Sprintf("is in run %d", t.Run)
	case t.Size < 0 || t.Size > fileSizeMax:
		what = fmt.Sprintf("has a size of %d", t.Size)
	case max(t.Keys, t.Entries, t.Partials, t.Deletions, t.RangeDeletions, t.Expiring, t.Pointers, t.KeyBytes, t.ValueBytes, t.Jumps) > numberMax:
		what = "counts more than the limit"
	case len(t.Smallest) == 0 || len(t.Smallest) > base.MaxKeySize || largest > base.MaxKeySize:
		what = fmt.Sprintf("has bounds of %d and %d bytes", len(t.Smallest), len(t.Largest))
	case largest == 0 && !t.LargestExclusive:
		what = "has a key behind all keys"
	case c > 0 || c == 0 && t.LargestExclusive:
		what = fmt.Sprintf("begins at key %s and ends at %s", base.BoundString(t.Smallest), base.BoundString(t.Largest))
	case t.HalfOutdated != 0 && (t.TenthOutdated == 0 || t.HalfOutdated < t.TenthOutdated):
		what = fmt.Sprintf("has discard points %d and %d", t.TenthOutdated, t.HalfOutdated)
	case t.HalfExpired != 0 && (t.TenthExpired == 0 || t.HalfExpired < t.TenthExpired):
		what = fmt.Sprintf("has expiry times %d and %d", t.TenthExpired, t.HalfExpired)
	case t.SmallestSeq > t.LargestSeq || t.LargestSeq > base.SeqNumMax:
		what = fmt.Sprintf("begins at sequence number %d and ends at %d", t.SmallestSeq, t.LargestSeq)
	case t.SeqShift > t.SmallestSeq:
		what = fmt.Sprintf("begins at sequence number %d, less than its shift %d", t.SmallestSeq, t.SeqShift)
	case t.SeqShift > 0 && (t.Entries == 0 || t.RangeDeletions > 0):
		what = fmt.Sprintf("has a shift, with %d entries and %d range tombstones", t.Entries, t.RangeDeletions)
	default:
		return t.checkValues()
	}
	return fmt.Errorf("manifest: table %d %s", t.Num, what)
}

// checkValues reports references that are out of order or to 0 bytes. The sum of a value
// file is 0 if and only if no table refers to it.
func (t *Table) checkValues() error {
	last, first := base.FileNum(0), true
	for r := range t.Values.All() {
		if !first && last >= r.File {
			return fmt.Errorf("manifest: table %d refers to value file %d after %d", t.Num, r.File, last)
		}
		last, first = r.File, false
		if r.Bytes > numberMax {
			return fmt.Errorf("manifest: table %d refers to %d bytes of value file %d, above the limit", t.Num, r.Bytes, r.File)
		}
		if r.Bytes == 0 {
			return fmt.Errorf("manifest: table %d refers to 0 bytes of value file %d", t.Num, r.File)
		}
	}
	return nil
}

// check reports a value file that cannot exist.
func (f *ValueFile) check(nextFile uint64) error {
	switch {
	case uint64(max(f.Num, f.File)) >= nextFile:
		return fmt.Errorf("manifest: value file %d in %d, but the next file is %d", f.Num, f.File, nextFile)
	case f.Size < 0 || f.Size > fileSizeMax:
		return fmt.Errorf("manifest: value file %d has a size of %d", f.Num, f.Size)
	case max(f.Values, f.Bytes, f.ValueBytes) > numberMax:
		return fmt.Errorf("manifest: value file %d counts more than the limit", f.Num)
	case f.FirstSeq > f.LastSeq || f.LastSeq > base.SeqNumMax:
		return fmt.Errorf("manifest: value file %d begins at sequence number %d and ends at %d", f.Num, f.FirstSeq, f.LastSeq)
	}
	return nil
}

// checkSize reports files whose total size exceeds numberMax.
func (v *Version) checkSize() error {
	sum := int64(0)
	add := func(size int64) {
		if sum <= numberMax {
			sum += size
		}
	}
	for t := range v.Tables() {
		add(t.Size)
	}
	for _, f := range v.Values {
		add(f.Size)
	}
	if sum > numberMax {
		return errors.New("manifest: the total size of tables and value files is above the limit")
	}
	return nil
}

// check checks all of v, and recomputes the sums that edits maintain.
func (v *Version) check() error {
	var errs []error
	live := map[uint64]uint64{}
	for level, tables := range v.Levels {
		for i, t := range tables {
			errs = append(errs, t.check())
			if t.Level != level {
				errs = append(errs, fmt.Errorf("manifest: table %d of level %d is in the list of level %d", t.Num, t.Level, level))
			}
			if i > 0 {
				errs = append(errs, checkNeighbors(level, tables[i-1], t))
			}
			for r := range t.Values.All() {
				live[uint64(r.File)] += r.Bytes
			}
		}
	}
	sum := uint64(0)
	for i, f := range v.Values {
		sum += f.Bytes
		if i > 0 && v.Values[i-1].Num >= f.Num {
			errs = append(errs, fmt.Errorf("manifest: value file %d is after %d", f.Num, v.Values[i-1].Num))
		}
		if n := live[uint64(f.Num)]; n != f.Live {
			errs = append(errs, fmt.Errorf("manifest: tables refer to %d bytes of value file %d, not to %d", n, f.Num, f.Live))
		}
		delete(live, uint64(f.Num))
	}
	if sum != v.ValueFileBytes {
		errs = append(errs, fmt.Errorf("manifest: the value files have %d bytes, not %d", sum, v.ValueFileBytes))
	}
	for num := range live {
		errs = append(errs, fmt.Errorf("manifest: tables refer to value file %d, which is not live", num))
	}
	return errors.Join(errs...)
}
