package jobs

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/testing/parts"
)

// Keyspaces 2 and 5 have a filter, and so has keyspace 3, which is dropped.
func TestScreened_FindsTablesOfKeyspacesWithFilters(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 1<<20)
	edit := manifest.Edit{NextKeyspace: manifest.Some(uint32(9))}
	for number := uint32(1); number < 6; number++ {
		edit.PutKeyspaces = append(edit.PutKeyspaces, &manifest.Keyspace{Number: number, Name: fmt.Sprint(number), Dropping: number == 3})
	}
	e.Must(e.Store.Install(edit, nil))
	if e.jobs.Screened() != nil {
		t.Error("tables are screened although no filter is registered")
	}
	e.jobs.o.Screen = func(*base.Entry, func() ([]byte, error)) (compact.Decision, []byte) { return compact.ScreenKeep, nil }
	e.jobs.o.Settings = func(keyspace uint32) *settings.Settings {
		s := *parts.Settings(keyspace)
		if slices.Contains([]uint32{2, 3, 5}, keyspace) {
			s.Filter = "some"
		}
		return &s
	}
	screened := e.jobs.Screened()
	for _, c := range []struct {
		lo, hi    uint32
		exclusive bool // the table ends before keyspace hi
		want      bool
	}{
		{0, 0, false, false}, {0, 1, false, false}, {0, 2, true, false}, {0, 2, false, true}, {1, 4, false, true},
		{2, 2, false, true}, {2, 3, false, true}, {3, 4, false, false}, {4, 5, true, false}, {4, 6, false, true}, {6, 7, false, false},
	} {
		if got := screened(tableFrom(c.lo, c.hi, c.exclusive)); got != c.want {
			t.Errorf("table with keys of the keyspaces %d to %d, exclusive %t: screened %t", c.lo, c.hi, c.exclusive, got)
		}
	}
}
