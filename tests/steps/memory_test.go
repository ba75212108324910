package steps

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// memoryDB makes a database with everything in tables and value files, small
// enough to be quick.
func memoryDB(t *testing.T, fs vfs.FS, dir string, values int) *inside.DB {
	t.Helper()
	return memoryDBWith(t, dir, values, &stoat.Options{FS: fs, MemoryBudget: 1 << 20, Durability: stoat.Buffered})
}

// memoryDBWith is memoryDB with other options.
func memoryDBWith(t *testing.T, dir string, values int, opts *stoat.Options) *inside.DB {
	t.Helper()
	db, err := inside.Open(dir, opts, work.Executor{})
	testkit.Must(t, err)
	for from := 0; from < values; from += 500 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := from; i < from+500; i++ {
				if err := tx.Set(memoryKey(i), memoryValue(i)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	testkit.Must(t, db.Close())
	db, err = inside.Open(dir, opts, work.Executor{})
	testkit.Must(t, err)
	return db
}

func memoryKey(i int) []byte { return fmt.Appendf(nil, "key%08d", i) }

// memoryValue is inline for every second key, and apart for the others.
func memoryValue(i int) []byte {
	return []byte(strings.Repeat(string(rune('a'+i%26)), 200+i%2*600))
}

// readMemory reads every value.
func readMemory(t *testing.T, db *inside.DB, values int) {
	t.Helper()
	if err := db.View(func(tx stoat.Txn) error {
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
func stillMemoryDB(t *testing.T, values int) *inside.DB {
	t.Helper()
	disk := memfs.NewVolatile()
	testkit.Must(t, memoryDB(t, disk, "db", values).Close())
	db, err := inside.Open("db", &stoat.Options{FS: disk, MemoryBudget: 1 << 20, Durability: stoat.Buffered}, work.Executor{Manual: true})
	testkit.Must(t, err)
	return db
}

// mustRound is a round of the governor.
func mustRound(t *testing.T, db *inside.DB, strict bool) (more bool) {
	t.Helper()
	more, err := db.Engine.Governor.Round(strict)
	testkit.Must(t, err)
	return more
}

func pagesOf(db *inside.DB) int64 {
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
	if before := pagesOf(db); before <= db.Stats().Memory.Budget {
		t.Fatalf("only %d bytes were read, with a budget of %d", before, db.Stats().Memory.Budget)
	}
	if err := db.View(func(tx stoat.Txn) error {
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
	if left := pagesOf(db); left > db.Stats().Memory.Budget {
		t.Fatalf("%d bytes left with a budget of %d", left, db.Stats().Memory.Budget)
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
	testkit.Must(t, memoryDB(t, disk, "db", values).Close())
	blocking := &blockingFS{FS: disk}
	db, err := inside.Open("db", &stoat.Options{FS: blocking, MemoryBudget: 1 << 20}, work.Executor{Manual: true})
	testkit.Must(t, err)
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
		_, err := db.Engine.Governor.Round(true)
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
	testkit.Must(t, <-done)
	if db.Stats().Memory.GivenBack == 0 {
		t.Error("nothing has been given back")
	}
	testkit.Must(t, db.Close())
}

// What readers know of values is memory that the system cannot take back.
func TestGovernor_ReadersInUseRememberWithinTheBudget(t *testing.T) {
	t.Parallel()
	const commits, values = 40, 35
	key := func(i, j int) []byte { return fmt.Appendf(nil, "key-%02d-%02d", i, j) }
	opts := &stoat.Options{FS: memfs.NewVolatile(), MemoryBudget: 1 << 20, ValueThreshold: 64, LargeValueThreshold: 64}
	db, err := inside.Open("db", opts, work.Executor{})
	testkit.Must(t, err)
	for i := range commits { // a value file each
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for j := range values {
				if err := tx.Set(key(i, j), bytes.Repeat([]byte{byte(i + j)}, 64+j*1700)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	testkit.Must(t, db.Close())
	db, err = inside.Open("db", opts, work.Executor{Manual: true})
	testkit.Must(t, err)
	defer db.Close()
	read := func() {
		t.Helper()
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			for i := range commits {
				for j := range values {
					v, err := tx.Get(key(i, j))
					if err != nil || len(v) != 64+j*1700 || v[len(v)-1] != byte(i+j) {
						return fmt.Errorf("value %d of commit %d has %d bytes: %w", j, i, len(v), err)
					}
				}
			}
			return nil
		}))
	}
	read()
	before := db.Stats().Memory
	mustRound(t, db, false)
	if m := db.Stats().Memory; before.FileHeap <= m.Budget/2 || m.FileHeap > m.Budget/2 {
		t.Errorf("readers take %d bytes before a round, and %d after it, of a budget of %d", before.FileHeap, m.FileHeap, m.Budget)
	}
	read()
}

// A countingFS counts the mappings that exist.
type countingFS struct {
	vfs.FS
	maps atomic.Int64
}

func (f *countingFS) Open(name string, cat vfs.Category) (vfs.File, error) {
	file, err := f.FS.Open(name, cat)
	if err != nil {
		return nil, err
	}
	return &countingFile{file, f}, nil
}

type countingFile struct {
	vfs.File
	fs *countingFS
}

func (f *countingFile) Map(size int64) (vfs.Mapping, error) {
	m, err := f.File.Map(size)
	if err != nil {
		return nil, err
	}
	f.fs.maps.Add(1)
	return &countingMapping{m, f.fs}, nil
}

type countingMapping struct {
	vfs.Mapping
	fs *countingFS
}

func (m *countingMapping) Close() error {
	m.fs.maps.Add(-1)
	return m.Mapping.Close()
}

// Linux allows a process 65,530 mappings. Beyond that no file could be read, and the Go
// runtime could not go on.
func TestGovernor_FilesAreUnmappedWhenManyAreOpen(t *testing.T) {
	t.Parallel()
	const values, most = 6000, 8
	disk := memfs.NewVolatile()
	testkit.Must(t, memoryDB(t, disk, "db", values).Close())
	fs := &countingFS{FS: disk}
	db, err := inside.Open("db", &stoat.Options{FS: fs, MemoryBudget: 1 << 20}, work.Executor{Manual: true})
	testkit.Must(t, err)
	defer db.Close()
	db.Engine.Governor.OpenMax = most
	readMemory(t, db, values)
	all := fs.maps.Load()
	if all <= most {
		t.Fatalf("%d mappings after reading everything, want more than %d", all, most)
	}

	tx, err := db.Begin(stoat.ReadOnly)
	testkit.Must(t, err)
	borrowed, err := tx.Get(memoryKey(1))
	testkit.Must(t, err)
	for range 5 { // the transaction keeps what it may use, once
		mustRound(t, db, false)
		readMemory(t, db, values)
	}
	if n := fs.maps.Load(); n > 2*all {
		t.Errorf("%d mappings beside an old transaction, at first %d", n, all)
	}
	if string(borrowed) != string(memoryValue(1)) {
		t.Error("a borrowed value changed when files were closed")
	}
	tx.Discard()
	db.Engine.Store.Sweep()
	mustRound(t, db, false)
	if n := fs.maps.Load(); n > most {
		t.Errorf("%d mappings after a round, want %d at most", n, most)
	}
	readMemory(t, db, values)
}

// A read-only database has few jobs. The sweeper is one of them.
func TestGovernor_AReadOnlyDatabaseClosesWhatItsTransactionsHaveKept(t *testing.T) {
	t.Parallel()
	const values = 3000
	for _, keys := range []stoat.KeyProvider{nil, testkit.Keys} {
		opts := &stoat.Options{FS: memfs.NewVolatile(), Keys: keys, MemoryBudget: testkit.SmallBudget, MemtableSize: testkit.SmallMemtable}
		db, err := stoat.Open("/db", opts)
		testkit.Must(t, err)
		testkit.SetKeys(t, db, 0, values, 1000, 'v')
		testkit.Must(t, db.Close())
		opts.ReadOnly = true
		read, err := inside.Open("/db", opts, work.Executor{})
		testkit.Must(t, err)
		if keys == nil {
			read.Engine.Governor.OpenMax = 1
		}
		tx := testkit.Begin(t, read.DB, stoat.ReadOnly)
		for i := range values {
			_, err := tx.Get(testkit.Key(i))
			testkit.Must(t, err)
		}
		mustRound(t, read, false)
		if !read.Engine.Store.HasRetired() {
			t.Error("no reader of a file was retired")
		}
		tx.Discard()
		testkit.Eventually(t, "the readers of files that a transaction has kept are closed", func() bool {
			return !read.Engine.Store.HasRetired()
		})
		testkit.Must(t, read.Close())
	}
}

func TestGovernor_SleepsWhileNoReaderComes(t *testing.T) {
	t.Parallel()
	db := stillMemoryDB(t, 500)
	defer db.Close()
	readMemory(t, db, 500)
	if mustRound(t, db, false) {
		t.Fatal("there is more to do within the budget")
	}
	db.Woken(db.Engine.Workers.Governor)
	if db.Stats(); db.Woken(db.Engine.Workers.Governor) {
		t.Fatal("woken without a read")
	}
	if readMemory(t, db, 500); !db.Woken(db.Engine.Workers.Governor) {
		t.Fatal("not woken by a read")
	}
}

func TestMemory_TheTotalHasWhatIsPendingAndWhatIsKeptForMemtables(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	tx, err := db.Begin(stoat.ReadWrite)
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
	mustFlush(t, db)
	kept := db.Engine.Store.Memory.Kept()
	if kept == 0 {
		t.Fatal("nothing is kept for the next memtable")
	}
	want("after the flush", kept)
	db.Engine.Store.Memory.Trim()
	if m := db.Stats().Memory; m.Prepared >= kept {
		t.Errorf("%d bytes are prepared when %d have been given back", m.Prepared, kept)
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
		if n := db.Engine.Store.Readers(); n != 0 {
			t.Fatalf("%d readers after a panic", n)
		}
	}()
	_ = db.View(func(stoat.Txn) error { panic("mine") })
}

// manyTables writes the manifest of a database of so many tables, whose files
// do not exist: Open needs none of them.
func manyTables(tb testing.TB, fs vfs.FS, dir string, tables int) {
	tb.Helper()
	db, err := inside.Open(dir, &stoat.Options{FS: fs}, work.Executor{})
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
	if err := db.Engine.Manifest.Append(edit); err != nil {
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
		db, err := inside.Open(dir, nil, work.Executor{})
		if err != nil {
			b.Fatal(err)
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// scarce is memory that gives nothing while none is set.
type scarce struct {
	memtable.Memory
	none atomic.Bool
}

var errScarce = errors.New("no memory")

func (s *scarce) Alloc(n int) ([]byte, error) {
	if s.none.Load() {
		return nil, errScarce
	}
	return s.Memory.Alloc(n)
}

func TestCommit_WithoutMemoryLeavesNoTraceAndStopsNoOther(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := openStillOn(t, fs)
	set := func(key string) error {
		return db.Update(func(tx stoat.Txn) error { return tx.Set([]byte(key), make([]byte, 1000)) })
	}
	testkit.Must(t, set("before"))
	memory := &scarce{Memory: memtable.Heap()}
	active := memtable.New(memtable.Options{Memory: memory, ChunkSize: 64 << 10})
	db.Engine.Store.AddMemtables(db.Engine.Commits.Log().Current(), active)
	memory.none.Store(true)
	if err := set("none"); !errors.Is(err, errScarce) {
		t.Fatalf("%v, want %v", err, errScarce)
	}
	memory.none.Store(false)
	testkit.Must(t, set("after"))
	if active.Len() != 1 {
		t.Fatalf("the memtable without memory has %d entries", active.Len())
	}
	testkit.Must(t, db.Close())

	db = openStillOn(t, fs)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for key, want := range map[string]error{"before": nil, "none": stoat.ErrNotFound, "after": nil} {
			if _, err := tx.Get([]byte(key)); err != want {
				t.Errorf("%s: %v, want %v", key, err, want)
			}
		}
		return nil
	}))
}

// The count decides when a memtable is flushed, so that compaction learns what its
// values replaced.
func TestMemtable_ValuesWrittenApartCountForTheOneThatRefersToThem(t *testing.T) {
	t.Parallel()
	db, err := inside.Open("/db", &stoat.Options{FS: memfs.New(), MemtableSize: 1 << 20}, work.Executor{Manual: true})
	testkit.Must(t, err)
	set := func(entries, size int) {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := range entries {
				if err := tx.Set(fmt.Append(nil, i), make([]byte, size)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	want := func(what string, tables int, apart int64) {
		t.Helper()
		if n := len(db.Engine.Store.View().Memtables); n != tables {
			t.Errorf("%s: %d memtables, want %d", what, n, tables)
		}
		if got := db.Engine.Commits.HeldByActive() >> 20; got != apart {
			t.Errorf("%s: %d MiB apart, want %d", what, got, apart)
		}
	}
	set(1, 3<<20)
	want("the first", 1, 3)
	set(1, 3<<20)
	want("more than one memtable may refer to", 2, 3)
	set(700, 1<<10)
	want("a transaction that is a memtable", 4, 0)
	testkit.Must(t, db.Close())
}

// coldDB is a database of tables that no read has fetched yet, with goroutines that the
// test replaces.
func coldDB(t *testing.T, budget int64, values int) (*inside.DB, *faultfs.FS) {
	t.Helper()
	disk := memfs.NewVolatile()
	testkit.Must(t, memoryDB(t, disk, "db", values).Close())
	faults := faultfs.New(disk)
	db, err := inside.Open("db", &stoat.Options{FS: faults, MemoryBudget: budget, Durability: stoat.Buffered}, work.Executor{Manual: true})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, db.Close()) })
	return db, faults
}

// failing makes all calls of an operation fail.
func failing(faults *faultfs.FS, op vfs.OpKind) *faultfs.Fault {
	return faults.Add(faultfs.Rule{Op: op, Forever: true})
}

// mustLoadMissed does steps of the governor until it has loaded all missed tables.
func mustLoadMissed(t *testing.T, db *inside.DB) {
	t.Helper()
	for db.Engine.Store.Files().HasMissed() {
		_, err := db.Engine.Governor.Step()
		testkit.Must(t, err)
	}
}

// getInline gets every n-th value that is beside its key, and returns the first error.
func getInline(db *inside.DB, values, n int) error {
	return db.View(func(tx stoat.Txn) error {
		for i := 0; i < values; i += 2 * n {
			if v, err := tx.Get(memoryKey(i)); err != nil || string(v) != string(memoryValue(i)) {
				return fmt.Errorf("key %d: %d bytes, %w", i, len(v), err)
			}
		}
		return nil
	})
}

func TestGovernor_LoadsTheTablesThatSingleReadsMiss(t *testing.T) {
	t.Parallel()
	const values = 6000
	db, faults := coldDB(t, 64<<20, values)
	kept := failing(faults, vfs.OpKeepUsed)
	testkit.Must(t, getInline(db, values, 50))
	before := pagesOf(db)
	db.Woken(db.Engine.Workers.Governor)
	_, err := db.Engine.Governor.Step()
	testkit.Must(t, err)
	if !db.Woken(db.Engine.Workers.Governor) {
		t.Fatal("the other tables wait for the next round")
	}
	first := db.Stats().Memory.TablePages
	if first <= before {
		t.Fatalf("%d bytes of tables in memory, %d before the governor's step", first, before)
	}
	if kept.Fired() != 1 {
		t.Fatalf("one step loads %d tables, and keeps their files as long", kept.Fired())
	}
	mustLoadMissed(t, db)
	if all := db.Stats().Memory.TablePages; all <= first {
		t.Fatalf("%d bytes of tables in memory, %d after the first step", all, first)
	}
	failing(faults, vfs.OpPopulate)
	if err := getInline(db, values, 1); err != nil {
		t.Fatalf("a read had to fetch a piece of a table: %v", err)
	}
}

func TestGovernor_LoadsNoTablesAfterAFewReads(t *testing.T) {
	t.Parallel()
	const values = 6000
	db, faults := coldDB(t, 64<<20, values)
	testkit.Must(t, getInline(db, values, values/4))
	_, err := db.Engine.Governor.Step()
	testkit.Must(t, err)
	failing(faults, vfs.OpPopulate)
	if getInline(db, values, 1) == nil {
		t.Fatal("tables were loaded after two reads")
	}
}

func TestGovernor_LoadsNoTablesBeyondTheBudget(t *testing.T) {
	t.Parallel()
	const values = 12_000
	db, faults := coldDB(t, 1<<20, values)
	testkit.Must(t, getInline(db, values, 100))
	mustLoadMissed(t, db)
	m := db.Stats().Memory
	if tables := db.Stats().TableBytes; tables <= m.Budget {
		t.Fatalf("%d bytes of tables do not pass the budget of %d", tables, m.Budget)
	}
	if m.TablePages > m.Budget {
		t.Fatalf("%d bytes of tables in memory, with a budget of %d", m.TablePages, m.Budget)
	}
	failing(faults, vfs.OpPopulate)
	if getInline(db, values, 1) == nil {
		t.Fatal("all tables are in memory")
	}
}

func TestGovernor_LoadsNoTablesBeyondAQuarterOfTheAvailableMemory(t *testing.T) {
	t.Parallel()
	const values = 6000
	db, faults := coldDB(t, 64<<20, values)
	testkit.Must(t, getInline(db, values, 50))
	available := 4*db.Stats().Memory.TablePages + 3 // not a byte more
	loads := failing(faults, vfs.OpPopulate)
	for db.Engine.Store.Files().HasMissed() {
		db.Engine.Store.LoadMissed(func() int64 { return available })
	}
	if loads.Fired() > 0 {
		t.Fatal("tables were loaded")
	}
}

func TestGovernor_LoadsASkippedTableOnceThereIsMemory(t *testing.T) {
	t.Parallel()
	const values = 6000
	db, faults := coldDB(t, 64<<20, values)
	testkit.Must(t, getInline(db, values, 50))
	for db.Engine.Store.Files().HasMissed() {
		db.Engine.Store.LoadMissed(func() int64 { return 0 })
	}
	testkit.Must(t, getInline(db, values, 5))
	if !db.Engine.Store.Files().HasMissed() {
		t.Fatal("many more reads do not wake the governor")
	}
	mustLoadMissed(t, db)
	failing(faults, vfs.OpPopulate)
	if err := getInline(db, values, 1); err != nil {
		t.Fatalf("a read had to fetch a piece of a table: %v", err)
	}
}

func TestGovernor_LoadsNothingMoreOnceTheDatabaseCloses(t *testing.T) {
	t.Parallel()
	const values = 6000
	db, faults := coldDB(t, 64<<20, values)
	testkit.Must(t, getInline(db, values, 50))
	loads := failing(faults, vfs.OpPopulate)
	db.Engine.Store.LoadMissed(func() int64 {
		db.Engine.Store.Closing()
		return 1 << 40
	})
	if loads.Fired() > 0 {
		t.Fatal("Close waits for the load of a table")
	}
}

// Decrypted pages are memory that the system cannot take back.
func TestGovernor_LoadsNoSealedTables(t *testing.T) {
	t.Parallel()
	const values = 6000
	opts := &stoat.Options{FS: memfs.NewVolatile(), Keys: testkit.Keys, MemtableSize: 128 << 10, Durability: stoat.Buffered}
	testkit.Must(t, memoryDBWith(t, "db", values, opts).Close())
	db, err := inside.Open("db", opts, work.Executor{Manual: true})
	testkit.Must(t, err)
	defer db.Close()
	testkit.Must(t, getInline(db, values, 50))
	if db.Engine.Store.Files().HasMissed() {
		t.Fatal("a sealed table counts as missed")
	}
}

// The reader of a replaced table may be closed at any moment.
func TestGovernor_LoadsNoTableThatWasReplaced(t *testing.T) {
	t.Parallel()
	const values = 6000
	db, faults := coldDB(t, 64<<20, values)
	old, err := db.Begin(stoat.ReadOnly)
	testkit.Must(t, err)
	defer old.Discard()
	for i := 0; i < values; i += 100 {
		_, err := old.Get(memoryKey(i))
		testkit.Must(t, err)
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if !db.Engine.Store.Files().HasMissed() || db.Engine.Store.ObsoleteEmpty() {
		t.Fatal("no table that a reader misses was replaced")
	}
	loads := failing(faults, vfs.OpPopulate)
	mustLoadMissed(t, db)
	if loads.Fired() > 0 {
		t.Fatal("a replaced table was loaded")
	}
}
