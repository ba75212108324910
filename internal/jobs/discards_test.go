package jobs

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
)

// raisedSpaces returns the rises of so many keyspaces.
func raisedSpaces(n int) (all []*compact.Raise) {
	for i := range uint32(n) {
		lo, hi := keyspace.Bounds(1 + i)
		all = append(all, &compact.Raise{Lo: lo, Hi: hi, Point: uint64(i)})
	}
	return all
}

// tableFrom returns a table with the keys from one keyspace to another.
func tableFrom(lo, hi uint32, exclusive bool) *manifest.Table {
	from, to := keyspace.New(lo), keyspace.New(hi)
	return &manifest.Table{Smallest: from.Append(nil, []byte("m")), Largest: to.Append(nil, nil), LargestExclusive: exclusive}
}

func TestRaisedIn_FindsTheKeyspacesOfATable(t *testing.T) {
	t.Parallel()
	all := raisedSpaces(300)
	some := slices.DeleteFunc(slices.Clone(all), func(r *compact.Raise) bool { return r.Point%3 == 1 })
	rng := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		lo := rng.Uint32N(310)
		m := tableFrom(lo, lo+1+rng.Uint32N(30), rng.IntN(2) == 0)
		var want []uint64
		for _, r := range some {
			if !m.StartsAfter(r.Hi) && !m.EndsBefore(r.Lo) {
				want = append(want, r.Point)
			}
		}
		var got []uint64
		for _, r := range raisedIn(m, some) {
			got = append(got, r.Point)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("table from %q to %q: keyspaces %v, want %v", m.Smallest, m.Largest, got, want)
		}
	}
}

// Each edit of the manifest asks for each table, while other edits and large commits wait.
func TestRaisedIn_TakesLittleTimeBesideManyKeyspaces(t *testing.T) {
	beside := func(spaces int) (measure func() time.Duration) {
		all := raisedSpaces(spaces)
		return func() time.Duration {
			started := time.Now()
			for i := range 2000 {
				at := uint32(i % spaces)
				if len(raisedIn(tableFrom(1+at, 2+at, true), all)) == 0 {
					t.Fatal("no keyspace is found")
				}
			}
			return time.Since(started)
		}
	}
	besideFew, besideMany := beside(200), beside(40_000)
	few, many := besideFew(), besideMany()
	for range 20 { // in turns, so that a busy machine slows down both
		few, many = min(few, besideFew()), min(many, besideMany())
	}
	if many > 20*few {
		t.Errorf("%v for each 2,000 tables beside 200 keyspaces, %v beside 40,000", few, many)
	}
}
