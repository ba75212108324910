package steps

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/collect"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// A file that is cut looks to a mapping like a lost device.
func TestLostPage_IsAnErrorAndNotTheEndOfTheProcess(t *testing.T) {
	t.Parallel()
	const values = 2000
	dir := t.TempDir()
	db := memoryDB(t, nil, dir, values)
	defer db.Close()
	readMemory(t, db, values)
	mustCut(t, dir, 0, ".table", ".values")
	failed := 0
	for i := range values {
		sum := byte(0)
		err := db.View(func(tx stoat.Txn) error {
			v, err := tx.Get(memoryKey(i))
			for _, b := range v {
				sum += b // the user's own look
			}
			return err
		})
		if err != nil && !errors.Is(err, vfs.ErrIO) && !strings.Contains(err.Error(), "populate") {
			t.Fatalf("key %d: %v", i, err)
		}
		if err != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Fatal("nothing failed although all tables and value files were cut")
	}
	if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("new"), []byte("1")) }); err != nil {
		t.Fatalf("writing after pages were lost: %v", err)
	}
	if err := db.View(func(tx stoat.Txn) error { _, err := tx.Get([]byte("new")); return err }); err != nil {
		t.Fatalf("reading what is in memory after pages were lost: %v", err)
	}
}

// Whatever a method of a transaction touches, and on whatever goroutine.
func TestLostPage_IsAnErrorWhicheverWayATransactionIsUsed(t *testing.T) {
	t.Parallel()
	const values = 2000
	inView := func(do func(tx stoat.Txn) error) func(*inside.DB) error {
		return func(db *inside.DB) error { return db.View(do) }
	}
	ofBegin := func(mode stoat.Mode, do func(tx stoat.Txn) error) func(*inside.DB) error {
		return func(db *inside.DB) error {
			tx, err := db.Begin(mode)
			if err != nil {
				return err
			}
			defer tx.Discard()
			if err := do(tx); err != nil {
				return err
			}
			return tx.Commit()
		}
	}
	each := func(do func(tx stoat.Txn, key []byte) error) func(tx stoat.Txn) error {
		return func(tx stoat.Txn) (err error) {
			for i := range values {
				if e := do(tx, memoryKey(i)); e != nil {
					err = e // and go on: the next one must be guarded, too
				}
			}
			return err
		}
	}
	item := func(do func(stoat.Item) error) func(tx stoat.Txn) error {
		return each(func(tx stoat.Txn, key []byte) error {
			item, err := tx.GetItem(key)
			if err == nil {
				err = do(item)
			}
			return err
		})
	}
	scan := func(o stoat.IterOptions, value func(stoat.Iterator) error) func(tx stoat.Txn) error {
		return func(tx stoat.Txn) error {
			it := tx.Iterator(o)
			defer it.Close()
			for it.Next() {
				if err := value(it); err != nil {
					return err
				}
			}
			return it.Err()
		}
	}
	get := each(func(tx stoat.Txn, key []byte) error { _, err := tx.Get(key); return err })
	together := func(tx stoat.Txn) error {
		keys := make([][]byte, values)
		for i := range keys {
			keys[i] = memoryKey(i)
		}
		_, err := tx.GetMany(keys, nil)
		return err
	}
	for what, use := range map[string]func(*inside.DB) error{
		"GetMany":            ofBegin(stoat.ReadOnly, together),
		"GetMany and Commit": ofBegin(stoat.ReadWrite, together),
		"GetMany in a View":  inView(together),
		"Get in a View on another goroutine": inView(func(tx stoat.Txn) error {
			failed := make(chan error)
			go func() { failed <- get(tx) }()
			return <-failed
		}),
		"Get":             ofBegin(stoat.ReadOnly, get),
		"Get and Commit":  ofBegin(stoat.ReadWrite, get),
		"Has":             ofBegin(stoat.ReadOnly, each(func(tx stoat.Txn, key []byte) error { _, err := tx.Has(key); return err })),
		"GetCopy":         ofBegin(stoat.ReadOnly, each(func(tx stoat.Txn, key []byte) error { _, err := tx.GetCopy(key, nil); return err })),
		"Item.Value":      ofBegin(stoat.ReadOnly, item(func(i stoat.Item) error { _, err := i.Value(); return err })),
		"Item.ValueCopy":  ofBegin(stoat.ReadOnly, item(func(i stoat.Item) error { _, err := i.ValueCopy(nil); return err })),
		"Item.Reader":     ofBegin(stoat.ReadOnly, item(func(i stoat.Item) error { _, err := i.Reader(); return err })),
		"Iterator":        ofBegin(stoat.ReadOnly, scan(stoat.IterOptions{}, func(it stoat.Iterator) error { it.Value(); return nil })),
		"Iterator, write": ofBegin(stoat.ReadWrite, scan(stoat.IterOptions{Reverse: true}, func(it stoat.Iterator) error { it.Value(); return nil })),
		"Iterator, keys":  ofBegin(stoat.ReadOnly, scan(stoat.IterOptions{KeysOnly: true}, func(it stoat.Iterator) error { return nil })),
		"Seek": ofBegin(stoat.ReadOnly, func(tx stoat.Txn) error {
			it := tx.Iterator(stoat.IterOptions{})
			defer it.Close()
			for i := range values {
				it.Seek(memoryKey(i))
			}
			return it.Err()
		}),
		"Iterator and copies": ofBegin(stoat.ReadOnly, scan(stoat.IterOptions{}, func(it stoat.Iterator) error {
			_, err := it.Item().ValueCopy(it.Item().KeyCopy(nil))
			return err
		})),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			db := memoryDB(t, nil, dir, values)
			defer db.Close()
			readMemory(t, db, values)
			// First the rest of a value is gone, then all values, then all.
			for _, cut := range []struct {
				to      int64
				endings []string
			}{{5 * 4096, []string{".values"}}, {0, []string{".values"}}, {0, []string{".values", ".table"}}} {
				mustCut(t, dir, cut.to, cut.endings...)
				err := use(db)
				if err == nil && len(cut.endings) == 2 {
					t.Fatal("nothing failed although all tables and value files were cut")
				}
				if err != nil && !errors.Is(err, vfs.ErrIO) && !errors.Is(err, stoat.ErrCorrupt) && !strings.Contains(err.Error(), "populate") {
					t.Fatal(err)
				}
			}
		})
	}
}

// mustCut cuts all files with one of the endings to a size.
func mustCut(t *testing.T, dir string, size int64, endings ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		for _, ending := range endings {
			if strings.HasSuffix(e.Name(), ending) {
				if err := os.Truncate(filepath.Join(dir, e.Name()), size); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestMemory_MappedFilesKeepNoDescriptors(t *testing.T) {
	t.Parallel()
	const values = 2000
	dir := t.TempDir()
	db := memoryDB(t, nil, dir, values)
	defer db.Close()
	readMemory(t, db, values)
	const streams = 20
	for i := range streams {
		key := fmt.Appendf(nil, "stream %d", i)
		if err := db.Update(func(tx stoat.Txn) error {
			return tx.SetReader(key, bytes.NewReader(make([]byte, 3<<20)))
		}); err != nil {
			t.Fatal(err)
		}
		if err := db.View(func(tx stoat.Txn) error {
			item, err := tx.GetItem(key)
			if err != nil {
				return err
			}
			r, err := item.Reader()
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, r)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if m := db.Stats().Memory; m.OpenTables == 0 || m.OpenValues < streams {
		t.Fatalf("not everything is open: %+v", m)
	}
	// What is being written has one, but not for long.
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		open := descriptorsIn(t, dir)
		if len(open) == 0 {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("these are open: %v", open)
		}
	}
}

// descriptorsIn returns the tables and value files of dir that the process has
// open.
func descriptorsIn(t *testing.T, dir string) (names []string) {
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		// The descriptor of the listing itself is gone by now.
		if name, err := os.Readlink(l); err == nil && strings.HasPrefix(name, dir) &&
			(strings.HasSuffix(name, ".table") || strings.HasSuffix(name, ".values")) {
			names = append(names, name)
		}
	}
	return names
}

// The pointer to a value is borrowed, too.
func TestLostPage_BehindAnItemIsAnErrorWhenItIsUsed(t *testing.T) {
	t.Parallel()
	const values = 200
	dir := t.TempDir()
	db := openCompacted(t, dir, values, 1<<10)
	defer db.Close()
	tx, err := db.Begin(stoat.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Discard()
	items := make([]stoat.Item, values)
	for i := range items {
		if items[i], err = tx.GetItem(memoryKey(i)); err != nil {
			t.Fatal(err)
		}
	}
	mustCut(t, dir, 0, ".table")
	for _, item := range items {
		_, err := item.Value()
		_, err2 := item.Reader()
		size := item.ValueSize()
		if invariant.Enabled { // then an item has copies of what is lent
			continue
		}
		if err == nil || err2 == nil || size != 0 {
			t.Fatalf("the table is gone: Value says %v, Reader %v, ValueSize %d", err, err2, size)
		}
	}
}

// lostPage returns what looks at a page that cannot be read.
func lostPage(t *testing.T) (touch func()) {
	t.Helper()
	f, err := vfs.OS().Create(filepath.Join(t.TempDir(), "lost"), vfs.CatTable)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, 4096), 0); err != nil {
		t.Fatal(err)
	}
	lost, err := f.Map(4096)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lost.Close() })
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	sum := byte(0)
	return func() { sum += lost.Bytes()[0] }
}

// What a method is asked to call is on its goroutine, and so is what it reads
// itself.
func TestLostPage_IsAnErrorInTheWorkThatAUserAsksFor(t *testing.T) {
	t.Parallel()
	db := memoryDB(t, nil, t.TempDir(), 200)
	defer db.Close()
	touch := lostPage(t)
	for what, do := range map[string]func() error{
		"Compact": func() error {
			return db.Compact(t.Context(), stoat.CompactOptions{Progress: func(stoat.CompactProgress) { touch() }})
		},
		"Check": func() error {
			_, err := db.Check(t.Context(), stoat.CheckOptions{Progress: func(stoat.CheckProgress) { touch() }})
			return err
		},
	} {
		if err := do(); !errors.Is(err, vfs.ErrIO) {
			t.Errorf("%s says %v of a page that is lost", what, err)
		}
	}
	if err := db.Compact(t.Context(), stoat.CompactOptions{}); err != nil {
		t.Errorf("a lock was left held or a failure kept: %v", err)
	}
}

// The file of values is damaged. Then the function of the user ends Check.
func TestCheck_ThatIsEndedClosesItsFilesAndReportsWhatItHasFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.Must(t, openCompacted(t, dir, 200, 1000).Close())
	mustDamage(t, dir, ".values")
	db, err := inside.Open(dir, nil, work.Executor{Manual: true})
	testkit.Must(t, err)
	defer db.Close()
	before := openFiles(t, dir)
	check := func(cause func()) (report *stoat.CheckReport, panicked any, err error) {
		calls := 0
		panicked, err = end(func() (err error) {
			report, err = db.Check(t.Context(), stoat.CheckOptions{Progress: func(stoat.CheckProgress) {
				if calls++; calls == 2 {
					cause()
				}
			}})
			return err
		})
		if after := openFiles(t, dir); after != before {
			t.Errorf("after Check: %s, want %s", after, before)
		}
		return report, panicked, err
	}
	report, _, err := check(lostPage(t))
	if !errors.Is(err, vfs.ErrIO) {
		t.Errorf("Check says %v of a page that is lost", err)
	}
	if report == nil || report.Values != 1 || report.Tables != 1 || !errors.Is(report.Err(), stoat.ErrCorrupt) {
		t.Errorf("the report is %+v, want a damaged value", report)
	}
	if _, panicked, err := check(func() { panic("on purpose") }); panicked != "on purpose" {
		t.Errorf("Check says %v, and panics with %v", err, panicked)
	}
}

// mustDamage changes a byte in the middle of the only file with that ending.
func mustDamage(t *testing.T, dir, ending string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+ending))
	if err != nil || len(names) != 1 {
		t.Fatalf("files %q, %v", names, err)
	}
	b, err := os.ReadFile(names[0])
	testkit.Must(t, err)
	b[len(b)/2] ^= 1
	testkit.Must(t, os.WriteFile(names[0], b, 0o600))
}

func TestLostPage_ATransactionWithAnIterationThatItEndsDoesNotCommit(t *testing.T) {
	t.Parallel()
	const keys = 2000
	for _, reverse := range []bool{false, true} {
		dir := t.TempDir()
		db := openCompacted(t, dir, keys, 100)
		var tx stoat.Txn
		for _, mode := range []stoat.Mode{stoat.ReadOnly, stoat.ReadWrite} { // the first reads and verifies all
			var err error
			if tx, err = db.Begin(mode); err != nil {
				t.Fatal(err)
			}
			defer tx.Discard()
			it := tx.Iterator(stoat.IterOptions{Reverse: reverse})
			if !it.First() {
				t.Fatal(it.Err())
			}
			if mode == stoat.ReadWrite {
				mustCut(t, dir, 0, ".table")
			}
			for it.Next() {
			}
			if (it.Err() != nil) != (mode == stoat.ReadWrite) {
				t.Fatalf("mode %d: %v", mode, it.Err())
			}
		}
		if err := tx.Set([]byte("other"), nil); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err == nil || errors.Is(err, stoat.ErrConflict) {
			t.Errorf("reverse %v: after a failed read Commit returned %v", reverse, err)
		}
		_ = db.Close() // its tables are gone
	}
}

// openCompacted opens a database with so many values of a size in bytes. No job is
// due any more.
func openCompacted(t *testing.T, dir string, values, size int) *inside.DB {
	t.Helper()
	db, err := inside.Open(dir, nil, work.Executor{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx stoat.Txn) error {
		for i := range values {
			if err := tx.Set(memoryKey(i), make([]byte, size)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Compact(t.Context(), stoat.CompactOptions{}); err != nil {
		t.Fatal(err)
	}
	return db
}

// A job that meets a lost page in the middle of its output has made nothing.
func TestLostPage_LeavesNothingOfTheFileThatWasBeingWritten(t *testing.T) {
	t.Parallel()
	end := endings{lostPage(t), func(_ any, err error) bool { return errors.Is(err, vfs.ErrIO) }}
	end.mustLeaveNothing(t, true)
}

// A job tells a user how far it is, and the user's function panics.
func TestPanic_LeavesNothingOfTheFileThatWasBeingWritten(t *testing.T) {
	t.Parallel()
	end := endings{func() { panic("on purpose") }, func(panicked any, _ error) bool { return panicked == "on purpose" }}
	end.mustLeaveNothing(t, false) // a collection calls no function of a user
}

// An endings ends jobs.
type endings struct {
	cause func()
	came  func(panicked any, err error) bool // whether a job has ended by cause
}

// mustLeaveNothing demands that each job leaves no new file, and none open.
func (e *endings) mustLeaveNothing(t *testing.T, collects bool) {
	t.Helper()
	dir := t.TempDir()
	creating := false // a collection has begun a file
	db, err := inside.Open(dir, nil, work.Executor{Manual: true, Reach: func(p work.Point) { creating = creating || p == work.PointCreate }})
	testkit.Must(t, err)
	defer db.Close()
	for from := 0; from < 10_000; from += 1000 {
		if err := db.Update(func(tx stoat.Txn) error {
			for i := range 1000 {
				size := 10
				if i%10 == 0 {
					size = 1000
				}
				if err := tx.Set(memoryKey(from+i), make([]byte, size)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	mustFlush(t, db)
	before := openFiles(t, dir)
	stop := func() error { e.cause(); return nil }
	v := db.Engine.Store.Version()
	plan := compact.Plan{Reason: compact.ReasonManual, OutputLevel: manifest.Levels - 1, Bottom: true}
	plan.Inputs[0] = v.Levels[0]
	plan.Gather = 1 << 30
	jobs := map[string]func() error{
		"merge":     func() error { plan := plan; plan.Gather = 0; return db.Engine.Jobs.Run(plan, stop, nil) },
		"gathering": func() error { return db.Engine.Jobs.Run(plan, stop, nil) },
		"gathering that tells": func() error {
			told := 0
			return db.Engine.Jobs.Run(plan, db.Engine.Group.Err, func(int64) {
				if told++; told == 2 {
					e.cause()
				}
			})
		},
	}
	if collects {
		jobs["collection"] = func() error {
			f := v.Values[0]
			var batch collect.Batch
			batch.Add(values.Choice{Num: f.Num, Copy: f.Live}, f)
			creating = false
			return db.Engine.Collector.Run(batch, new(collect.LiveSet), func() error {
				if creating {
					e.cause()
				}
				return nil
			})
		}
	}
	for what, job := range jobs {
		if panicked, err := end(job); !e.came(panicked, err) {
			t.Errorf("%s says %v, and panics with %v", what, err, panicked)
		}
		if after := openFiles(t, dir); after != before {
			t.Errorf("after a %s: %s, want %s", what, after, before)
		}
	}
}

// end runs a job to its end, as DB.Compact does, and recovers from a panic.
func end(job func() error) (panicked any, err error) {
	defer func() { panicked = recover() }()
	return nil, fault.Guard(job)
}

// openFiles tells which tables and value files there are, and how many of them
// are open.
func openFiles(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.[tv]a*"))
	if err != nil {
		t.Fatal(err)
	}
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	open := 0
	for _, l := range links {
		if name, err := os.Readlink(l); err == nil && strings.HasPrefix(name, dir) &&
			(strings.Contains(name, ".table") || strings.Contains(name, ".values")) {
			open++
		}
	}
	return fmt.Sprintf("%d open of %s", open, strings.Join(files, " "))
}

// The pages of a table that was read before are lost. A flush that looks there,
// for what its values replace, succeeds, and the process lives on.
func TestFlush_SurvivesALostPageThatItSamples(t *testing.T) {
	t.Parallel()
	const n = 2000
	dir := t.TempDir()
	db, err := inside.Open(dir, &stoat.Options{}, work.Executor{Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	set := func() {
		t.Helper()
		if err := db.Update(func(tx stoat.Txn) error {
			for i := range n {
				if err := tx.Set(memoryKey(i), make([]byte, 1<<10)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	set()
	mustFlush(t, db)
	lookUp := func(key []byte) error {
		return db.View(func(tx stoat.Txn) error {
			_, err := tx.Get(key)
			return err
		})
	}
	for i := range n {
		if err := lookUp(memoryKey(i)); err != nil {
			t.Fatal(err)
		}
	}
	mustCut(t, dir, 4096, ".table")
	if lookUp(memoryKey(n/2)) == nil {
		t.Fatal("a table that was cut is still read: a flush meets nothing")
	}
	set()
	mustFlush(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
