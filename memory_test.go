package stoat

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// memoryDB makes a database with everything in tables and value files, small
// enough to be quick.
func memoryDB(t *testing.T, fs vfs.FS, dir string, values int) *DB {
	t.Helper()
	opts := &Options{FS: fs, MemoryBudget: 1 << 20, Durability: Buffered}
	db, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	for from := 0; from < values; from += 500 {
		if err := db.Update(func(tx Txn) error {
			for i := from; i < from+500; i++ {
				if err := tx.Set(memoryKey(i), memoryValue(i)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(dir, opts); err != nil {
		t.Fatal(err)
	}
	return db
}

func memoryKey(i int) []byte { return fmt.Appendf(nil, "key%08d", i) }

// memoryValue is inline for every second key, and apart for the others.
func memoryValue(i int) []byte {
	return []byte(strings.Repeat(string(rune('a'+i%26)), 200+i%2*600))
}

// readMemory reads every value.
func readMemory(t *testing.T, db *DB, values int) {
	t.Helper()
	if err := db.View(func(tx Txn) error {
		for i := range values {
			v, err := tx.Get(memoryKey(i))
			if err == nil && string(v) != string(memoryValue(i)) {
				err = errors.New("wrong value")
			}
			if err != nil {
				return fmt.Errorf("key %d: %w", i, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// stillMemoryDB is memoryDB without goroutines: the test does the rounds of the
// governor.
func stillMemoryDB(t *testing.T, values int) *DB {
	t.Helper()
	disk := memfs.NewVolatile()
	mustOK(t, memoryDB(t, disk, "db", values).Close())
	db, err := openWith("db", &Options{FS: disk, MemoryBudget: 1 << 20, Durability: Buffered}, work.Executor{Manual: true})
	mustOK(t, err)
	return db
}

// mustRound is a round of the governor.
func mustRound(t *testing.T, db *DB, strict bool) (more bool) {
	t.Helper()
	more, err := db.engine.Governor.Round(strict)
	mustOK(t, err)
	return more
}

func pagesOf(db *DB) int64 {
	m := db.Stats().Memory
	return m.TablePages + m.ValuePages
}

func TestGovernor_PagesAreGivenBackOnceTheyAreIdleAndBeyondTheBudget(t *testing.T) {
	t.Parallel()
	const values = 6000
	db := stillMemoryDB(t, values)
	defer db.Close()
	mustRound(t, db, false)
	readMemory(t, db, values)
	before := pagesOf(db)
	if before < values*400 {
		t.Fatalf("%d bytes in memory after %d values were read", before, values)
	}
	if more := mustRound(t, db, false); !more || pagesOf(db) != before {
		t.Fatalf("pages in use went back: %d bytes of %d left, more to do: %v", pagesOf(db), before, more)
	}
	// A file has not been used for ten rounds before it is given back.
	more := true
	for range 10 {
		more = mustRound(t, db, false)
	}
	m := db.Stats().Memory
	if left := m.TablePages + m.ValuePages; more || left > m.Budget {
		t.Fatalf("%d bytes left of %d after a rest, with a budget of %d; more to do: %v", left, before, m.Budget, more)
	}
	if m.GivenBack == 0 || m.OpenTables == 0 || m.OpenValues == 0 || m.FileHeap == 0 {
		t.Fatalf("statistics lack something: %+v", m)
	}
	readMemory(t, db, values)
}

func TestGovernor_TheBudgetIsStrictWhenMemoryIsShort(t *testing.T) {
	t.Parallel()
	const values = 6000
	db := stillMemoryDB(t, values)
	defer db.Close()
	readMemory(t, db, values)
	if err := db.View(func(tx Txn) error {
		borrowed, err := tx.Get(memoryKey(1))
		if err != nil {
			return err
		}
		mustRound(t, db, true)
		if string(borrowed) != string(memoryValue(1)) {
			t.Error("a borrowed value changed when memory was given back")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if left := pagesOf(db); left > db.opts.MemoryBudget {
		t.Fatalf("%d bytes left with a budget of %d", left, db.opts.MemoryBudget)
	}
}

// A blockingFS has mappings that tell before they give pages back.
type blockingFS struct {
	vfs.FS
	givesBack func()
}

func (f *blockingFS) Open(name string, cat vfs.Category) (vfs.File, error) {
	file, err := f.FS.Open(name, cat)
	if err != nil {
		return nil, err
	}
	return &blockingFile{file, f}, nil
}

type blockingFile struct {
	vfs.File
	fs *blockingFS
}

func (f *blockingFile) Map(size int64) (vfs.Mapping, error) {
	m, err := f.File.Map(size)
	if err != nil {
		return nil, err
	}
	return &blockingMapping{m, f.fs}, nil
}

type blockingMapping struct {
	vfs.Mapping
	fs *blockingFS
}

func (m *blockingMapping) DontNeed(off, n int64) error {
	m.fs.givesBack()
	return m.Mapping.DontNeed(off, n)
}

func TestGovernor_StatsDoNotWaitForARound(t *testing.T) {
	t.Parallel()
	const values = 6000
	disk := memfs.NewVolatile()
	mustOK(t, memoryDB(t, disk, "db", values).Close())
	blocking := &blockingFS{FS: disk}
	db, err := openWith("db", &Options{FS: blocking, MemoryBudget: 1 << 20}, work.Executor{Manual: true})
	mustOK(t, err)
	readMemory(t, db, values)
	working, goOn := make(chan bool), make(chan bool)
	var once sync.Once
	blocking.givesBack = func() {
		once.Do(func() {
			working <- true
			<-goOn
		})
	}
	done := make(chan error)
	go func() {
		_, err := db.engine.Governor.Round(true)
		done <- err
	}()
	<-working
	told := make(chan int64)
	go func() { told <- db.Stats().Memory.GivenBack }()
	select {
	case got := <-told:
		if got != 0 {
			t.Errorf("%d bytes have been given back", got)
		}
		close(goOn)
	case <-time.After(time.Minute):
		t.Error("Stats waits for a round of the governor")
		close(goOn)
		<-told
	}
	mustOK(t, <-done)
	if db.Stats().Memory.GivenBack == 0 {
		t.Error("nothing has been given back")
	}
	mustOK(t, db.Close())
}

func TestGovernor_SleepsWhileNoReaderComes(t *testing.T) {
	t.Parallel()
	db := stillMemoryDB(t, 500)
	defer db.Close()
	readMemory(t, db, 500)
	if mustRound(t, db, false) {
		t.Fatal("there is more to do within the budget")
	}
	db.engine.Workers.Governor.Woken()
	if db.Stats(); db.engine.Workers.Governor.Woken() {
		t.Fatal("woken without a read")
	}
	if readMemory(t, db, 500); !db.engine.Workers.Governor.Woken() {
		t.Fatal("not woken by a read")
	}
}

func TestMemory_TheTotalHasWhatIsPendingAndWhatIsKeptForMemtables(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	tx, err := db.Begin(ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 512)
	want := func(when string, least int64) {
		t.Helper()
		m := db.Stats().Memory
		if own, _ := m.Total(); own < least || own != m.Memtables+m.FlushedMemtables+m.Prepared+m.FileHeap+m.Decoded {
			t.Errorf("%s: %d bytes in all, of at least %d: %+v", when, own, least, m)
		}
	}
	for i := range 4000 {
		if err := tx.Set(fmt.Append(nil, i), value); err != nil {
			t.Fatal(err)
		}
	}
	want("before the commit", 4000*512)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	want("after the commit", 4000*512)
	mustRotateAndFlush(t, db)
	kept := db.engine.Store.Memory.Kept()
	if kept == 0 {
		t.Fatal("nothing is kept for the next memtable")
	}
	want("after the flush", kept)
	db.engine.Store.Memory.Trim()
	if m := db.Stats().Memory; m.Prepared >= kept {
		t.Errorf("%d bytes are prepared when %d have been given back", m.Prepared, kept)
	}
}

func TestOptions_MemtablesTakeTheirShareOfTheBudget(t *testing.T) {
	t.Parallel()
	for budget, want := range map[int64]int64{0: 32 << 20, 64 << 20: 8 << 20, 1 << 20: 128 << 10, 1 << 40: memtableSizeMax} {
		if o := (&Options{MemoryBudget: budget}).withDefaults(); o.MemtableSize != want {
			t.Errorf("a budget of %d gives memtables of %d, want %d", budget, o.MemtableSize, want)
		}
	}
	for _, budget := range []int64{-1, 1, memoryBudgetMin - 1, memoryBudgetMax + 1} {
		o := (&Options{MemoryBudget: budget}).withDefaults()
		if err := o.validate(); err == nil || !strings.Contains(err.Error(), "MemoryBudget") {
			t.Errorf("a budget of %d: %v", budget, err)
		}
	}
}

func TestView_APanicOfTheUserPassesThrough(t *testing.T) {
	t.Parallel()
	db := memoryDB(t, memfs.NewVolatile(), "db", 500)
	defer db.Close()
	defer func() {
		if p := recover(); p != "mine" {
			t.Fatalf("recovered %v", p)
		}
		if n := db.engine.Store.Readers(); n != 0 {
			t.Fatalf("%d readers after a panic", n)
		}
	}()
	_ = db.View(func(Txn) error { panic("mine") })
}

// manyTables writes the manifest of a database of so many tables, whose files
// do not exist: Open needs none of them.
func manyTables(tb testing.TB, fs vfs.FS, dir string, tables int) {
	tb.Helper()
	db, err := Open(dir, &Options{FS: fs})
	if err != nil {
		tb.Fatal(err)
	}
	var edit manifest.Edit
	for i := range tables {
		edit.AddTables = append(edit.AddTables, &manifest.Table{
			Num: base.FileNum(i + 1), Level: manifest.Levels - 1, Size: 32 << 20, Salt: uint64(i), Entries: 200_000,
			Smallest: memoryKey(2 * i), Largest: memoryKey(2*i + 1), SmallestSeq: 1, LargestSeq: 1,
		})
	}
	edit.NextFile = manifest.Some(uint64(tables + 1))
	edit.LastSeq, edit.FlushedSeq = manifest.Some(base.SeqNum(1)), manifest.Some(base.SeqNum(1))
	if err := db.engine.Manifest.Append(edit); err != nil {
		tb.Fatal(err)
	}
	if err := db.Close(); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkOpenManyTables opens and closes a database of 10,000 tables.
func BenchmarkOpenManyTables(b *testing.B) {
	dir := b.TempDir()
	manyTables(b, nil, dir, 10_000)
	for b.Loop() {
		db, err := Open(dir, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
