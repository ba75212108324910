package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A namedFilter is a function with a name.
type namedFilter struct {
	name   string
	decide func(key []byte) (stoat.FilterDecision, []byte)
}

func (f *namedFilter) Name() string { return f.name }

func (f *namedFilter) Filter(key []byte, _ *stoat.FilterValue) (stoat.FilterDecision, []byte) {
	return f.decide(key)
}

// warningsOf returns the text of all warnings.
func warningsOf(log *testkit.EventLog) (all []string) {
	for _, e := range log.All {
		if w, ok := e.(stoat.Warning); ok {
			all = append(all, fmt.Sprintf("%s: %v", w.What, w.Err))
		}
	}
	return all
}

func TestFilter_AFailureIsAWarningOnceAMinuteAndKeepsTheValue(t *testing.T) {
	t.Parallel()
	var log testkit.EventLog
	var text bytes.Buffer
	clock := testkit.NewClock()
	filters := []stoat.Filter{
		&namedFilter{"panics", func([]byte) (stoat.FilterDecision, []byte) { panic("no such policy") }},
		&namedFilter{"guesses", func([]byte) (stoat.FilterDecision, []byte) { return 9, nil }},
		&namedFilter{"works", func(key []byte) (stoat.FilterDecision, []byte) {
			if string(key) == "b" {
				return stoat.FilterDrop, nil
			}
			return stoat.FilterRewrite, []byte("new")
		}},
	}
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) {
		o.Events, o.Clock, o.Filter, o.Filters = log.Add, clock, "panics", filters
		o.Logger = slog.New(slog.NewTextHandler(&text, nil))
	})
	spaces := []*stoat.Keyspace{nil}
	for _, name := range []string{"guesses", "works"} {
		ks, err := db.Keyspace(name, &stoat.KeyspaceOptions{Filter: name})
		testkit.Must(t, err)
		spaces = append(spaces, ks)
	}
	for _, pass := range []int64{0, 59_999, 1} { // milliseconds before the compaction
		clock.Ms.Add(pass)
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for _, ks := range spaces {
				for _, key := range []string{"a", "b", "c"} {
					if err := tx.In(ks).Set([]byte(key), []byte("old")); err != nil {
						return err
					}
				}
			}
			return nil
		}))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		got := ""
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			for _, ks := range spaces {
				for key, value := range tx.In(ks).All() {
					got += fmt.Sprintf("%s=%s ", key, value)
				}
			}
			return nil
		}))
		if want := "a=old b=old c=old a=old b=old c=old a=new c=new "; got != want {
			t.Errorf("the compaction left %s, want %s", got, want)
		}
	}
	testkit.Must(t, db.Close())
	panicked := `the compaction filter "panics" failed, so the value stays: it panicked: no such policy`
	guessed := `the compaction filter "guesses" failed, so the value stays: it returned the unknown decision 9`
	want := strings.Join([]string{panicked, guessed, panicked, guessed}, "\n")
	if got := strings.Join(warningsOf(&log), "\n"); got != want {
		t.Errorf("the warnings are\n%s\nwant\n%s", got, want)
	}
	if n := strings.Count(text.String(), "no such policy"); n != 2 {
		t.Errorf("the log names the panic %d times, want 2:\n%s", n, text.String())
	}
}

func TestFilter_IsAskedOnlyAboutLiveValues(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock()
	var mu sync.Mutex
	asked := map[string]bool{}
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) {
		o.Clock, o.Filter = clock, "notes keys"
		o.Filters = []stoat.Filter{&namedFilter{"notes keys", func(key []byte) (stoat.FilterDecision, []byte) {
			mu.Lock()
			defer mu.Unlock()
			asked[string(key)] = true
			return stoat.FilterKeep, nil
		}}}
	})
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		return errors.Join(tx.Set([]byte("a"), []byte("deleted")), tx.Set([]byte("b"), []byte("live")),
			tx.Set([]byte("c"), []byte("expired"), stoat.TTL(time.Second)))
	}))
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{Lower: []byte("~")})) // only a flush
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange([]byte("a"), []byte("b")) }))
	clock.Ms.Add(2000)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	if want := map[string]bool{"b": true}; !maps.Equal(asked, want) {
		t.Errorf("the filter was asked about %v, want %v", asked, want)
	}
}

// They may have come there before the keyspace had the filter. And a filter may drop later
// what it has kept.
func TestFilter_CompactAsksAboutValuesInTheLastLevel(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	for _, name := range []string{"a", "b", "c"} {
		ks, err := db.Keyspace(name, nil)
		testkit.Must(t, err)
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).Set([]byte(name), []byte("value")) }))
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	var mu sync.Mutex
	asked := map[string]bool{}
	filter := &namedFilter{"notes keys", func(key []byte) (stoat.FilterDecision, []byte) {
		mu.Lock()
		defer mu.Unlock()
		asked[string(key)] = true
		return stoat.FilterKeep, nil
	}}
	db = testkit.OpenOn(t, disk, func(o *stoat.Options) { o.Filters = []stoat.Filter{filter} })
	for _, name := range []string{"a", "c"} {
		_, err := db.Keyspace(name, &stoat.KeyspaceOptions{Filter: filter.name})
		testkit.Must(t, err)
	}
	for range 2 {
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		mu.Lock()
		if want := map[string]bool{"a": true, "c": true}; !maps.Equal(asked, want) {
			t.Errorf("the filter was asked about %v, want %v", asked, want)
		}
		clear(asked)
		mu.Unlock()
	}
	testkit.Must(t, db.Close())
}

// A readingFilter is a function that reads values.
type readingFilter func(v *stoat.FilterValue)

func (readingFilter) Name() string { return "reads" }

func (f readingFilter) Filter(_ []byte, v *stoat.FilterValue) (stoat.FilterDecision, []byte) {
	f(v)
	return stoat.FilterKeep, nil
}

func TestFilter_ReadsValuesThatAreTooLongToFoldOnto(t *testing.T) {
	t.Parallel()
	const size = 64<<20 + 1
	var read atomic.Int64
	filter := readingFilter(func(v *stoat.FilterValue) {
		value, err := v.Bytes()
		if err != nil {
			t.Error(err)
		}
		read.Store(int64(len(value)))
	})
	db := testkit.OpenOn(t, memfs.NewVolatile(), func(o *stoat.Options) {
		o.Filter, o.Filters = filter.Name(), []stoat.Filter{filter}
	})
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.SetReader([]byte("k"), testkit.Patterned(size)) }))
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	if n := read.Load(); n != size {
		t.Errorf("the filter read %d bytes, want %d", n, size)
	}
}

func TestFilter_ACompactionThatFindsNoRoomForATableAsksNotAgainAboutTheOthers(t *testing.T) {
	t.Parallel()
	const keys = 6000
	var asked atomic.Int64
	counting := &namedFilter{"counts", func([]byte) (stoat.FilterDecision, []byte) {
		asked.Add(1)
		return stoat.FilterKeep, nil
	}}
	faults := faultfs.New(memfs.NewVolatile())
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults, MemtableSize: 128 << 10, Filter: counting.Name(), Filters: []stoat.Filter{counting}})
	testkit.Must(t, err)
	testkit.SetKeys(t, db, 0, keys, 100, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	levels := db.Stats().Levels
	tables := levels[len(levels)-1].Tables
	if tables < 4 {
		t.Fatalf("%d tables are too few", tables)
	}
	asked.Store(0)
	fault := faults.Add(faultfs.Rule{Op: vfs.OpCreate, Category: vfs.CatTable, Nth: int64(tables), Err: vfs.ErrNoSpace})
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if n := asked.Load(); fault.Fired() != 1 || n < keys || n > keys*3/2 {
		t.Errorf("%d questions about %d values, %d failures", n, keys, fault.Fired())
	}
	testkit.Must(t, db.Close())
}
