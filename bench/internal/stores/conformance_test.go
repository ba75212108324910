package stores

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// The comparison is fair only if all stores give the same answers.
func TestStores_AllAnswerAlike(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		run  func(t *testing.T, h *harness)
	}{
		{"absent key is not found", absentKey},
		{"get returns what was set", getAfterSet},
		{"the later write of a batch wins", laterWins},
		{"deleted key is not found", deletedKey},
		{"deletion of an absent key is no error", deleteAbsent},
		{"empty value is found", emptyValue},
		{"scan visits all keys in order", scanAll},
		{"scan begins at or after its first key", scanFrom},
		{"scan stops at its limit", scanLimit},
		{"scan of keys gives no values", scanKeys},
		{"scan of an empty store visits nothing", scanEmpty},
		{"error of the callback is returned", callbackError},
		{"store keeps its data after a reopen", reopen},
		{"unsynced writes survive a sync and a reopen", reopenUnsynced},
		{"the store does not keep the bytes of a batch", batchReused},
		{"key may be a part of something larger", keyInside},
		{"collect keeps live data", collectKeeps},
		{"large value is returned whole", largeValue},
		{"large batch is applied whole", largeBatch},
		{"scan sees one snapshot while writes go on", scanSnapshot},
		{"random operations agree with a map", randomOperations},
		{"concurrent single writes all arrive", concurrentWrites},
	}
	for _, info := range append(All(), Variants()...) {
		if info.Open == nil {
			t.Logf("%s: %s", info.Name, info.Missing)
			continue
		}
		t.Run(info.Name, func(t *testing.T) {
			t.Parallel()
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(t, openHarness(t, info))
				})
			}
		})
	}
}

// Go processors must not limit the peers that wait on them: for the device, or in calls into C.
func TestStores_WaitingPeersHaveProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for _, info := range All() {
		if info.Open == nil || info.Name == "stoat" || info.Name == "stoat-fast" || info.Name == "goleveldb" {
			continue
		}
		dir := t.TempDir()
		for _, c := range []Config{{Writers: 1}, {Writers: 16}, {Writers: 1, Beside: true}, {Writers: 16, Cold: true}} {
			runtime.GOMAXPROCS(2)
			c.Dir, c.CacheBytes, c.MemtableBytes = dir, 16<<20, MemtableBytesMin
			s, err := info.Open(c)
			if err != nil {
				t.Fatalf("%s: %v", info.Name, err)
			}
			want := c.Cold
			switch info.Name {
			case "badger", "badger-wisckey":
				want = true
			case "lmdb", "rocksdb", "rocksdb-blob":
				want = c.Cold || c.Beside || c.Writers > 1
			}
			if got := runtime.GOMAXPROCS(0) > 16; got != want {
				t.Errorf("%s with %+v: more than 16 processors: %t, want %t", info.Name, c, got, want)
			}
			if err := s.Close(); err != nil {
				t.Errorf("%s: %v", info.Name, err)
			}
		}
	}
}

// The options for ascending keys must change no answer.
func TestStores_AscendingKeysAreAllFound(t *testing.T) {
	for _, info := range All() {
		if info.Open == nil {
			continue
		}
		t.Run(info.Name, func(t *testing.T) {
			dir := t.TempDir()
			open := func(ascending bool) *harness {
				h := &harness{t: t, info: info, config: Config{
					Dir: dir, CacheBytes: 16 << 20, MemtableBytes: MemtableBytesMin, Writers: 1, Ascending: ascending,
				}}
				h.open()
				return h
			}
			h := open(true)
			var want []string
			for first := 0; first < 1000; first += 100 {
				b := NewBatch(nil)
				for i := first; i < first+100; i++ {
					key := fmt.Sprintf("%06d", i)
					b.Set([]byte(key), bytes.Repeat([]byte{byte(i)}, 200))
					want = append(want, key)
				}
				h.must(h.store.Apply(b))
			}
			h.must(h.store.Sync())
			h.close()
			h = open(false)
			defer h.close()
			var got []string
			h.must(h.reader.Scan(ScanOptions{}, func(key, value []byte) error {
				got = append(got, string(key))
				return nil
			}))
			if !slices.Equal(got, want) {
				t.Errorf("the scan has %d keys, want %d", len(got), len(want))
			}
		})
	}
}

// A harness is one open store with helpers for the cases.
type harness struct {
	t      *testing.T
	info   Info
	config Config
	store  Store
	reader Reader
}

func openHarness(t *testing.T, info Info) *harness {
	t.Helper()
	h := &harness{t: t, info: info, config: Config{
		Dir:           t.TempDir(),
		Sync:          true,
		CacheBytes:    16 << 20,
		MemtableBytes: MemtableBytesMin,
		Writers:       4,
	}}
	h.open()
	t.Cleanup(h.close)
	return h
}

func (h *harness) open() {
	h.t.Helper()
	store, err := h.info.Open(h.config)
	h.must(err)
	h.store = store
	h.reader, err = store.NewReader()
	h.must(err)
}

func (h *harness) close() {
	h.t.Helper()
	if h.store == nil {
		return
	}
	h.must(h.reader.Close())
	h.must(h.store.Close())
	h.store = nil
}

func (h *harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) apply(fill func(b *Batch)) {
	h.t.Helper()
	b := NewBatch(nil)
	fill(b)
	h.must(h.store.Apply(b))
}

func (h *harness) set(pairs ...string) {
	h.t.Helper()
	h.apply(func(b *Batch) {
		for i := 0; i < len(pairs); i += 2 {
			b.Set([]byte(pairs[i]), []byte(pairs[i+1]))
		}
	})
}

func (h *harness) wantGet(key, want string) {
	h.t.Helper()
	var got []byte
	found, err := h.reader.Get([]byte(key), func(v []byte) error {
		got = bytes.Clone(v)
		return nil
	})
	h.must(err)
	if !found {
		h.t.Fatalf("key %q not found, want a value of %d bytes", key, len(want))
	}
	if string(got) != want {
		h.t.Fatalf("key %q has %.40q (%d bytes), want %.40q (%d bytes)", key, got, len(got), want, len(want))
	}
}

func (h *harness) wantAbsent(key string) {
	h.t.Helper()
	found, err := h.reader.Get([]byte(key), func([]byte) error {
		h.t.Errorf("the callback ran for absent key %q", key)
		return nil
	})
	h.must(err)
	if found {
		h.t.Fatalf("key %q found, want none", key)
	}
}

func (h *harness) wantScan(o ScanOptions, want ...string) {
	h.t.Helper()
	var got []string
	h.must(h.reader.Scan(o, func(k, v []byte) error {
		got = append(got, fmt.Sprintf("%s=%s", k, v))
		return nil
	}))
	if !slices.Equal(got, want) {
		h.t.Fatalf("scan visits %d entries %.200q, want %d: %.200q", len(got), got, len(want), want)
	}
}

func absentKey(t *testing.T, h *harness) {
	h.set("b", "1")
	h.wantAbsent("a")
	h.wantAbsent("c")
	h.wantAbsent("bb")
}

func getAfterSet(t *testing.T, h *harness) {
	h.set("a", "1", "b", "2")
	h.set("a", "3")
	h.wantGet("a", "3")
	h.wantGet("b", "2")
}

func laterWins(t *testing.T, h *harness) {
	h.set("a", "1", "b", "2", "a", "3")
	h.wantGet("a", "3")
	h.apply(func(b *Batch) {
		b.Set([]byte("c"), []byte("4"))
		b.Delete([]byte("c"))
		b.Delete([]byte("b"))
		b.Set([]byte("b"), []byte("5"))
	})
	h.wantAbsent("c")
	h.wantGet("b", "5")
}

func deletedKey(t *testing.T, h *harness) {
	h.set("a", "1", "b", "2")
	h.apply(func(b *Batch) { b.Delete([]byte("a")) })
	h.wantAbsent("a")
	h.wantScan(ScanOptions{}, "b=2")
	h.set("a", "3")
	h.wantGet("a", "3")
}

func deleteAbsent(t *testing.T, h *harness) {
	h.apply(func(b *Batch) {
		b.Delete([]byte("a"))
		b.Set([]byte("b"), []byte("1"))
	})
	h.apply(func(b *Batch) { b.Delete([]byte("c")) })
	h.wantScan(ScanOptions{}, "b=1")
}

func emptyValue(t *testing.T, h *harness) {
	h.set("a", "")
	h.wantGet("a", "")
	h.wantScan(ScanOptions{}, "a=")
}

func scanAll(t *testing.T, h *harness) {
	var want []string
	h.apply(func(b *Batch) {
		for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(2000) {
			b.Set(fmt.Appendf(nil, "key%05d", i), fmt.Appendf(nil, "value%d", i))
		}
	})
	for i := range 2000 {
		want = append(want, fmt.Sprintf("key%05d=value%d", i, i))
	}
	h.wantScan(ScanOptions{}, want...)
}

func scanFrom(t *testing.T, h *harness) {
	h.set("b", "1", "d", "2", "f", "3")
	h.wantScan(ScanOptions{From: []byte("a")}, "b=1", "d=2", "f=3")
	h.wantScan(ScanOptions{From: []byte("b")}, "b=1", "d=2", "f=3")
	h.wantScan(ScanOptions{From: []byte("c")}, "d=2", "f=3")
	h.wantScan(ScanOptions{From: []byte("f")}, "f=3")
	h.wantScan(ScanOptions{From: []byte("g")})
}

func scanLimit(t *testing.T, h *harness) {
	h.set("a", "1", "b", "2", "c", "3")
	h.wantScan(ScanOptions{Limit: 1}, "a=1")
	h.wantScan(ScanOptions{From: []byte("b"), Limit: 2}, "b=2", "c=3")
	h.wantScan(ScanOptions{From: []byte("b"), Limit: 5}, "b=2", "c=3")
}

func scanKeys(t *testing.T, h *harness) {
	h.set("a", "1", "b", "2", "c", "3")
	h.wantScan(ScanOptions{KeysOnly: true, From: []byte("b")}, "b=", "c=")
	h.must(h.reader.Scan(ScanOptions{KeysOnly: true}, func(k, v []byte) error {
		if v != nil {
			t.Errorf("a scan of keys returns %q a value of %d bytes", k, len(v))
		}
		return nil
	}))
}

func scanEmpty(t *testing.T, h *harness) {
	h.wantScan(ScanOptions{})
	h.wantScan(ScanOptions{From: []byte("a"), Limit: 3})
}

func callbackError(t *testing.T, h *harness) {
	h.set("a", "1", "b", "2")
	stop := errors.New("enough")
	if _, err := h.reader.Get([]byte("a"), func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("get returns %v, want the error of its callback", err)
	}
	calls := 0
	err := h.reader.Scan(ScanOptions{}, func(_, _ []byte) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("scan returns %v after %d calls, want the error of its first", err, calls)
	}
	h.wantGet("b", "2")
}

func reopen(t *testing.T, h *harness) {
	h.set("a", "1", "b", "2", "c", "3")
	h.apply(func(b *Batch) { b.Delete([]byte("b")) })
	h.close()
	h.open()
	h.wantScan(ScanOptions{}, "a=1", "c=3")
	h.wantAbsent("b")
	h.set("b", "4")
	h.wantGet("b", "4")
}

func reopenUnsynced(t *testing.T, h *harness) {
	h.close()
	h.config.Sync, h.config.Unsynced = false, true
	h.open()
	h.set("a", "1", "b", "2")
	h.must(h.store.Sync())
	h.set("c", "3")
	h.close()
	h.open()
	h.wantScan(ScanOptions{}, "a=1", "b=2", "c=3")
	h.close()
	h.config.Unsynced = false
	h.open()
	h.wantScan(ScanOptions{}, "a=1", "b=2", "c=3")
}

func batchReused(t *testing.T, h *harness) {
	b := NewBatch(make([]byte, 0, 1024))
	for i := range 20 {
		b.Reset()
		for j := range 10 {
			b.Set(fmt.Appendf(nil, "k%02d-%d", i, j), bytes.Repeat([]byte{'a' + byte(i)}, 40))
		}
		h.must(h.store.Apply(b))
	}
	for i := range 20 {
		for j := range 10 {
			h.wantGet(fmt.Sprintf("k%02d-%d", i, j), string(bytes.Repeat([]byte{'a' + byte(i)}, 40)))
		}
	}
}

// keyInside reads a key whose memory also holds Go pointers. A call into C must
// not receive them.
func keyInside(t *testing.T, h *harness) {
	h.set("a", "1", "b", "2")
	whole := &struct {
		next *harness
		key  [1]byte
	}{next: h, key: [1]byte{'b'}}
	if found, err := h.reader.Get(whole.key[:], func([]byte) error { return nil }); err != nil || !found {
		t.Errorf("found is %t, %v", found, err)
	}
	h.must(h.reader.Scan(ScanOptions{From: whole.key[:]}, func(_, _ []byte) error { return nil }))
}

func collectKeeps(t *testing.T, h *harness) {
	for round := range 3 {
		h.apply(func(b *Batch) {
			for i := range 500 {
				b.Set(fmt.Appendf(nil, "key%03d", i), bytes.Repeat([]byte{'0' + byte(round)}, 300))
			}
		})
	}
	h.apply(func(b *Batch) {
		for i := 1; i < 500; i += 2 {
			b.Delete(fmt.Appendf(nil, "key%03d", i))
		}
	})
	h.must(h.store.Collect())
	for i := range 500 {
		if i%2 == 1 {
			h.wantAbsent(fmt.Sprintf("key%03d", i))
			continue
		}
		h.wantGet(fmt.Sprintf("key%03d", i), string(bytes.Repeat([]byte{'2'}, 300)))
	}
}

func randomBytes(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

func largeValue(t *testing.T, h *harness) {
	large := randomBytes(7, 512<<10)
	h.set("a", "1", "b", large, "c", "3")
	h.wantGet("b", large)
	h.close()
	h.open()
	h.wantScan(ScanOptions{}, "a=1", "b="+large, "c=3")
}

// largeBatch writes more bytes than the configured memtable holds.
func largeBatch(t *testing.T, h *harness) {
	const n = 1500
	h.apply(func(b *Batch) {
		for i := range n {
			b.Set(fmt.Appendf(nil, "key%05d", i), []byte(randomBytes(uint64(i), 8<<10)))
		}
	})
	for i := range n {
		h.wantGet(fmt.Sprintf("key%05d", i), randomBytes(uint64(i), 8<<10))
	}
}

func scanSnapshot(t *testing.T, h *harness) {
	var want []string
	h.apply(func(b *Batch) {
		for i := range 200 {
			b.Set(fmt.Appendf(nil, "key%03d", i), []byte("old"))
			want = append(want, fmt.Sprintf("key%03d=old", i))
		}
	})
	started, written := make(chan struct{}), make(chan error, 1)
	go func() {
		<-started
		b := NewBatch(nil)
		for i := range 200 {
			b.Set(fmt.Appendf(nil, "key%03d", i), []byte("new"))
			b.Set(fmt.Appendf(nil, "key%03d-more", i), []byte("new"))
		}
		written <- h.store.Apply(b)
	}()
	var got []string
	h.must(h.reader.Scan(ScanOptions{}, func(k, v []byte) error {
		if len(got) == 50 {
			close(started)
			h.must(<-written)
		}
		got = append(got, fmt.Sprintf("%s=%s", k, v))
		return nil
	}))
	if !slices.Equal(got, want) {
		t.Fatalf("scan visits %d entries %.200q, want the %d of its beginning", len(got), got, len(want))
	}
	h.wantGet("key199", "new")
}

func randomOperations(t *testing.T, h *harness) {
	const seed = 20
	r := rand.New(rand.NewPCG(seed, 0))
	model := map[string]string{}
	for range 60 {
		h.apply(func(b *Batch) {
			for range 1 + r.IntN(60) {
				key := fmt.Sprintf("key%03d", r.IntN(300))
				if r.IntN(4) == 0 {
					b.Delete([]byte(key))
					delete(model, key)
					continue
				}
				value := randomBytes(r.Uint64(), r.IntN(900))
				b.Set([]byte(key), []byte(value))
				model[key] = value
			}
		})
		if r.IntN(15) == 0 {
			h.close()
			h.open()
		}
		compareWithModel(h, r, model)
	}
}

func compareWithModel(h *harness, r *rand.Rand, model map[string]string) {
	h.t.Helper()
	for range 20 {
		key := fmt.Sprintf("key%03d", r.IntN(300))
		if value, ok := model[key]; ok {
			h.wantGet(key, value)
		} else {
			h.wantAbsent(key)
		}
	}
	from := fmt.Sprintf("key%03d", r.IntN(300))
	var want []string
	for _, key := range slices.Sorted(maps.Keys(model)) {
		if key >= from {
			want = append(want, key+"="+model[key])
		}
	}
	h.wantScan(ScanOptions{From: []byte(from)}, want...)
}

func concurrentWrites(t *testing.T, h *harness) {
	const writers, each = 4, 25
	var wg sync.WaitGroup
	errs := make(chan error, writers)
	for w := range writers {
		wg.Go(func() {
			b := NewBatch(nil)
			for i := range each {
				b.Reset()
				b.Set(fmt.Appendf(nil, "w%d-%03d", w, i), fmt.Appendf(nil, "%d", i))
				if err := h.store.Apply(b); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
	for w := range writers {
		for i := range each {
			h.wantGet(fmt.Sprintf("w%d-%03d", w, i), fmt.Sprint(i))
		}
	}
}

// The stores that write backups to a stream, and those that make checkpoints, if the comparison
// knows how.
var (
	backupers     = []string{"stoat", "stoat-fast", "badger", "badger-wisckey", "bbolt", "lmdb"}
	checkpointers = []string{"stoat", "stoat-fast", "pebble", "pebble-blob", "bbolt", "lmdb", "rocksdb", "rocksdb-blob"}
)

func TestStores_CopiesHaveWhatWasAppliedBefore(t *testing.T) {
	t.Parallel()
	for _, info := range All() {
		if info.Open == nil {
			t.Logf("%s: %s", info.Name, info.Missing)
			continue
		}
		t.Run(info.Name, func(t *testing.T) {
			t.Parallel()
			h := openHarness(t, info)
			b, backs := h.store.(Backuper)
			if backs != slices.Contains(backupers, info.Name) {
				t.Errorf("the store writes backups: %t", backs)
			}
			if backs {
				h.wantCopy(func(c Config) (Store, error) {
					var stream bytes.Buffer
					h.must(b.Backup(&stream))
					h.set("later", "1")
					return b.Restore(c, &stream)
				})
			}
			c, checks := h.store.(Checkpointer)
			if checks != slices.Contains(checkpointers, info.Name) {
				t.Errorf("the store makes checkpoints: %t", checks)
			}
			if checks {
				h.wantCopy(func(config Config) (Store, error) {
					h.must(c.Checkpoint(config.Dir))
					h.set("later", "1")
					return info.Open(config)
				})
			}
		})
	}
}

// wantCopy fills the store, and checks what copied returns: a copy of the store in a new
// directory, without what was written after it.
func (h *harness) wantCopy(copied func(c Config) (Store, error)) {
	long := randomBytes(8, 300<<10)
	h.set("a", "1", "b", "2", "c", long)
	h.apply(func(b *Batch) { b.Delete([]byte("b")); b.Delete([]byte("later")) })
	config := h.config
	config.Dir = filepath.Join(h.t.TempDir(), "copy")
	store, err := copied(config)
	h.must(err)
	reader, err := store.NewReader()
	h.must(err)
	c := &harness{t: h.t, store: store, reader: reader}
	defer c.close()
	c.wantScan(ScanOptions{}, "a=1", "c="+long)
}
