package jobs

import (
	"encoding/binary"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/work"
)

// set sets keys to values of a length, or deletes them if it is negative.
func (e *engine) set(size int, keys ...int) {
	e.T.Helper()
	e.Update(func(w *commit.WriteSet) {
		for _, k := range keys {
			key, m := binary.BigEndian.AppendUint32(nil, uint32(k)), base.Meta{Kind: base.KindSet}
			if size < 0 {
				m.Kind = base.KindDelete
			}
			e.Must(w.Pending.Set(key, make([]byte, max(0, size)), base.Hash(key, e.HashSeed), m, 0))
		}
	})
}

// hidden returns what level 0 is known to hide, in bytes.
func (e *engine) hidden() (bytes int64) {
	hides := e.jobs.Shape(work.Idle, e.Store.Horizon()).Hides
	for _, t := range e.Store.Version().Levels[0] {
		bytes += hides[t.Num]
	}
	return bytes
}

func TestFlush_MeasuresWhatItsTablesHide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		write  func(e *engine)
		at, to int64
	}{
		{"deleted", func(e *engine) { e.set(-1, 1, 2) }, 200_000, 201_000},
		{"overwritten by short values", func(e *engine) { e.set(1, 1, 2) }, 199_000, 201_000},
		{"overwritten by values half as long", func(e *engine) { e.set(50_000, 1, 2) }, 99_000, 101_000},
		{"overwritten by longer values", func(e *engine) { e.set(200_000, 1, 2) }, 0, 0},
		{"deleted and written again", func(e *engine) { e.set(-1, 1, 2); e.set(100_000, 1, 2) }, 0, 1000}, // of headers
		{"new keys", func(e *engine) { e.set(1, 11, 12) }, 0, 0},
		{"written again and again", func(e *engine) {
			for range 1000 {
				e.set(1, 1, 2)
			}
		}, 0, 40 * 200_000},
	} {
		e := newEngine(t, 1<<20)
		e.set(100_000, 0, 1, 2, 3, 4)
		e.Flush()
		c.write(e)
		e.Flush()
		if n := e.hidden(); n < c.at || n > c.to {
			t.Errorf("%s: level 0 hides %d bytes, want %d to %d", c.name, n, c.at, c.to)
		}
	}
}

func TestHidden_EndsWithTheTablesOfTheFlush(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 1<<20)
	table := func(n base.FileNum, level int) *manifest.Table { return &manifest.Table{Num: n, Level: level} }
	sized := func(n base.FileNum, size int64) *manifest.Table { return &manifest.Table{Num: n, Size: size} }
	for _, c := range []struct {
		name    string
		flushed map[base.FileNum]int64
		edit    manifest.Edit
		want    map[base.FileNum]int64
	}{
		{"a flush", map[base.FileNum]int64{91: 1000}, manifest.Edit{AddTables: []*manifest.Table{table(91, 0)}},
			map[base.FileNum]int64{91: 1000}},
		{"another", map[base.FileNum]int64{92: 500}, manifest.Edit{AddTables: []*manifest.Table{table(92, 0), table(93, 0)}},
			map[base.FileNum]int64{91: 1000, 92: 500}},
		{"an unrelated merge", nil, manifest.Edit{DropTables: []manifest.Place{{Level: 6, Num: 5}}, AddTables: []*manifest.Table{table(94, 6)}},
			map[base.FileNum]int64{91: 1000, 92: 500}},
		{"a merge of runs", nil, manifest.Edit{DropTables: []manifest.Place{{Num: 91}, {Num: 93}},
			AddTables: []*manifest.Table{table(95, 0), table(96, 0)}}, map[base.FileNum]int64{92: 500}},
		{"a cut", nil, manifest.Edit{DropTables: []manifest.Place{{Num: 92}}, AddTables: []*manifest.Table{sized(98, 30), sized(99, 10)}},
			map[base.FileNum]int64{98: 375, 99: 125}},
		{"a merge into the last level", nil, manifest.Edit{DropTables: []manifest.Place{{Num: 98}}, AddTables: []*manifest.Table{table(97, 6)}},
			map[base.FileNum]int64{99: 125}},
	} {
		e.jobs.flushHides.Store(&c.flushed)
		e.jobs.keepHidden(&c.edit)
		for n := base.FileNum(90); n < 100; n++ {
			if got := (*e.jobs.hidden.Load())[n]; got != c.want[n] {
				t.Errorf("after %s: table %d hides %d bytes, want %d", c.name, n, got, c.want[n])
			}
		}
	}
}
