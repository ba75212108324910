package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
)

// order compares the positions of two tables in the list of their level. Below
// level 0 all runs are 0.
func order(a, b *Table) int {
	if a.Run != b.Run {
		return cmp.Compare(b.Run, a.Run)
	}
	return bytes.Compare(a.Smallest, b.Smallest)
}

// merge makes the list of a level without drops and with adds. It sorts both.
// It copies the tables between two changes in one piece.
func (d *draft) merge(level int, drops, adds []*Table) error {
	if len(drops)+len(adds) == 0 {
		return nil
	}
	old := d.v.Levels[level]
	next, n := d.spare[level][:0], len(old)-len(drops)+len(adds)
	if n > cap(next) {
		next = make([]*Table, 0, n)
	}
	if d.many {
		d.spare[level] = old
	}
	slices.SortFunc(drops, order)
	slices.SortFunc(adds, order)
	added := make([]int, 0, len(adds)) // indices in next
	for len(drops)+len(adds) > 0 {
		dropping := len(adds) == 0 || len(drops) > 0 && order(drops[0], adds[0]) <= 0
		change := adds
		if dropping {
			change = drops
		}
		i, _ := slices.BinarySearchFunc(old, change[0], order)
		next, old = append(next, old[:i]...), old[i:]
		if !dropping {
			added = append(added, len(next))
			next, adds = append(next, adds[0]), adds[1:]
			continue
		}
		if len(old) == 0 || old[0] != drops[0] {
			return fmt.Errorf("manifest: level %d is not in order at table %d", level, drops[0].Num)
		}
		old, drops = old[1:], drops[1:]
	}
	next = append(next, old...)
	if err := checkAdded(level, next, added); err != nil {
		return err
	}
	if n == 0 {
		next = nil
	}
	d.v.Levels[level] = next
	return nil
}

// checkAdded reports a table, among those at the indices added, that overlaps
// another table of its run. The others do not overlap, so comparing neighbours
// is enough.
func checkAdded(level int, tables []*Table, added []int) error {
	for _, i := range added {
		for _, j := range [2]int{i, i + 1} {
			if j == 0 || j == len(tables) {
				continue
			}
			if err := checkNeighbors(level, tables[j-1], tables[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNeighbors reports an error if table a must not precede table b in the
// list of their level.
func checkNeighbors(level int, a, b *Table) error {
	if a.Run > b.Run || a.Run == b.Run && a.EndsBefore(b.Smallest) {
		return nil
	}
	return fmt.Errorf("manifest: tables %d, [%s, %s], and %d, [%s, %s], overlap in level %d, run %d",
		a.Num, base.BoundString(a.Smallest), base.BoundString(a.Largest),
		b.Num, base.BoundString(b.Smallest), base.BoundString(b.Largest), level, b.Run)
}
