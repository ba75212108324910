package changes

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
)

// tableOf returns a table of keyspaces with these numbers.
func tableOf(numbers ...uint32) (table []*manifest.Keyspace) {
	for _, n := range numbers {
		table = append(table, &manifest.Keyspace{Number: n, Name: fmt.Sprint("k", n)})
	}
	return table
}

func TestNames_FindTheKeyspacesOfARange(t *testing.T) {
	t.Parallel()
	var n names
	n.set(tableOf(0, 1, 2, 7, 240, 241, 300, 1<<20))
	var bounds [][]byte
	for _, number := range []uint32{0, 1, 2, 5, 7, 240, 241, 250, 300, 1 << 20} {
		s := keyspace.New(number)
		lower, upper := s.Bounds()
		bounds = append(bounds, lower, upper, s.Append(nil, []byte("k")), s.Append(nil, []byte("\xff")))
	}
	for _, lo := range bounds {
		for _, hi := range bounds {
			if len(hi) > 0 && bytes.Compare(lo, hi) >= 0 {
				continue
			}
			var want []*named
			for _, k := range n.all {
				if bytes.Compare(lo, k.upper) < 0 && (len(hi) == 0 || bytes.Compare(k.lower, hi) < 0) {
					want = append(want, k)
				}
			}
			if got := n.within(lo, hi); !slices.Equal(got, want) {
				t.Errorf("from %q to %q: %d keyspaces, want %d", lo, hi, len(got), len(want))
			}
		}
	}
}

// A feed asks for the names with each commit, and a database may have many keyspaces.
func TestNames_KeepWhatANewTableShares(t *testing.T) {
	t.Parallel()
	var n names
	table := tableOf(0, 1, 2, 3)
	n.set(table)
	before := slices.Clone(n.all)
	if n.set(table); !slices.Equal(n.all, before) {
		t.Error("the same table changes the names")
	}
	changed := slices.Clone(table)
	changed[2] = &manifest.Keyspace{Number: 2, Name: "renamed"}
	changed[3] = &manifest.Keyspace{Number: 3, Name: "k3", Dropping: true}
	n.set(append(changed, tableOf(9)...))
	if got := []*named{n.find(0), n.find(1)}; !slices.Equal(got, before[:2]) {
		t.Error("keyspaces that stay the same are made anew")
	}
	if k := n.find(2); k == nil || k.name != "renamed" {
		t.Errorf("keyspace 2 is %+v", k)
	}
	if n.find(3) != nil || n.gone(3).name != "k3" || n.find(9).name != "k9" {
		t.Errorf("dropped %+v, new %+v", n.find(3), n.find(9))
	}
}

func BenchmarkNames_SetAndFind(b *testing.B) {
	numbers := make([]uint32, 20_000)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	table := tableOf(numbers...)
	var n names
	s := keyspace.New(10_000)
	lo, hi := s.Append(nil, []byte("a")), s.Append(nil, []byte("b"))
	for b.Loop() {
		n.set(table)
		if len(n.within(lo, hi)) != 1 {
			b.Fatal("the range is in another number of keyspaces")
		}
	}
}
