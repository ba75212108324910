package model

import (
	"slices"
	"testing"
)

// herbs is a map that keeps two versions. basil was set three times, dill was
// set and deleted, mint expires at 100.
func herbs() *Map {
	m := NewMap()
	m.Versions = 2
	m.Commit([]Write{{"basil", Version{Value: "1"}}, {"dill", Version{Value: "1"}}}) // 1
	m.Commit([]Write{{"basil", Version{Value: "2"}}, {"dill", Version{Deleted: true}}})
	m.Commit([]Write{{"basil", Version{Value: "3"}}, {"mint", Version{Value: "m", ExpiresAt: 100}}})
	return m
}

func TestKept_SaysWhatMayBeMissing(t *testing.T) {
	t.Parallel()
	all := herbs().AllVersions(0, 3) // basil 3 2 1, dill 2 1, mint 3
	buried := Item{"mint", Version{Seq: 3, Deleted: true}}
	for _, c := range []struct {
		name  string
		got   []Item
		nowMs uint64
		right bool
	}{
		{"everything", all, 0, true},
		{"the third version is dropped", slices.Delete(slices.Clone(all), 2, 3), 0, true},
		{"the second version is dropped", slices.Delete(slices.Clone(all), 1, 2), 0, false},
		{"the newest version is dropped", all[1:], 0, false},
		{"a deletion is dropped and what it hides", slices.Delete(slices.Clone(all), 3, 5), 0, true},
		{"a deletion is dropped and what it hides comes back", slices.Delete(slices.Clone(all), 3, 4), 0, false},
		{"what a deletion hides is dropped", slices.Delete(slices.Clone(all), 4, 5), 0, true},
		{"a live value is dropped", all[:5], 99, false},
		{"an expired value is dropped", all[:5], 100, true},
		{"an expired value is buried", append(slices.Clone(all[:5]), buried), 100, true},
		{"a live value is buried", append(slices.Clone(all[:5]), buried), 99, false},
		{"something that never was", append(slices.Clone(all), Item{"sage", Version{Seq: 1}}), 0, false},
		{"out of order", append(all[1:2:2], append([]Item{all[0]}, all[2:]...)...), 0, false},
	} {
		if d := herbs().Kept(c.got, 3, c.nowMs); (d == "") != c.right {
			t.Errorf("%s: %q, want it to be right: %v", c.name, d, c.right)
		}
	}
}

func TestKept_MoreVersionsBringNothingBack(t *testing.T) {
	t.Parallel()
	m := NewMap()
	set := func(n int) {
		for range n {
			m.Commit([]Write{{Key: "k", Version: Version{Value: "v"}}})
		}
	}
	set(3)
	m.SetVersions(2) // commits up to 3 may have left one version
	set(2)
	m.SetVersions(5) // commits up to 5 may have left two
	set(1)
	all := m.AllVersions(0, 6) // 6 to 1
	for _, c := range []struct {
		left  int
		right bool
	}{{6, true}, {4, true}, {3, true}, {2, false}, {1, false}} {
		if d := m.Kept(all[:c.left], 6, 0); (d == "") != c.right {
			t.Errorf("%d versions are left: %q, want it to be right: %v", c.left, d, c.right)
		}
	}
	m.Truncate(4)
	set(1) // commit 5 is another one, of a time when five versions stay
	for left, right := range map[int]bool{3: true, 2: false} {
		if d := m.Kept(m.AllVersions(0, 5)[:left], 5, 0); (d == "") != right {
			t.Errorf("after a crash, %d versions are left: %q, want it to be right: %v", left, d, right)
		}
	}
}

func TestReach_BackwardMeetsTheNewestVersionLast(t *testing.T) {
	t.Parallel()
	m := herbs()
	for _, c := range []struct {
		name  string
		shown []Item
		right bool
	}{
		{"everything", []Item{{"dill", Version{Seq: 1, Value: "1"}}, {"dill", Version{Seq: 2, Deleted: true}}}, true},
		{"nothing", nil, true},
		{"the deletion alone", []Item{{"dill", Version{Seq: 2, Deleted: true}}}, true},
		{"what the deletion hides alone", []Item{{"dill", Version{Seq: 1, Value: "1"}}}, false},
	} {
		it := m.Begin(3, false).Iterator(IterOptions{Prefix: "dill", AllVersions: true, Reverse: true})
		var err error
		for i := 0; i <= len(c.shown) && err == nil; i++ {
			it.Next()
			if i < len(c.shown) {
				err = it.Reach(c.shown[i], true)
			} else {
				err = it.Reach(Item{}, false)
			}
		}
		if (err == nil) != c.right {
			t.Errorf("%s: %v, want it to be right: %v", c.name, err, c.right)
		}
	}
}
