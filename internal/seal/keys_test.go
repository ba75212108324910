package seal

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestStaticKeys_CopyTheKeys(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, KeySize)
	p := StaticKeys(MasterKey{"m", key})
	clear(key)
	_, current, err := p.Current(t.Context())
	must(t, err)
	named, err := p.Key(t.Context(), "m")
	must(t, err)
	if want := bytes.Repeat([]byte{7}, KeySize); !bytes.Equal(current, want) || !bytes.Equal(named, want) {
		t.Errorf("the keys are %x and %x, want %x", current, named, want)
	}
}

// A provider that has other bytes under the ID of the master key never gets to seal KEYS.
func TestKeys_AnotherMasterKeyWithTheSameIDIsRefused(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	must(t, disk.MkdirAll("/db"))
	o := options(disk)
	o.MaxAge = 0 // each file gets a new data key
	p := &provider{"m", bytes.Repeat([]byte{7}, KeySize)}
	o.Provider = p
	for _, load := range []bool{false, true} {
		keys, err := Create(t.Context(), o)
		if load {
			keys, err = Load(t.Context(), o)
		}
		must(t, err)
		p.key = bytes.Repeat([]byte{8}, KeySize)
		if err := keys.RotateMaster(t.Context()); !errors.Is(err, base.ErrKey) {
			t.Errorf("rotation to another key with the same ID: %v", err)
		}
		write(t, keys.FS(disk), "/db/000001.table", []byte("content"))
		if n := keys.DataKeys(); n != 1 {
			t.Errorf("%d data keys, want 1", n)
		}
		p.key = bytes.Repeat([]byte{7}, KeySize)
		again, err := Load(t.Context(), o)
		must(t, err)
		if got, err := readAll(again.FS(disk), "/db/000001.table"); err != nil || string(got) != "content" {
			t.Errorf("the file has %q, %v", got, err)
		}
		must(t, disk.Remove("/db/000001.table"))
	}
}

// leaves are the ways in which a process leaves a new KEYS in the page cache that is not
// durable. replace makes the keys write it. Each returns the disk for the next process.
var leaves = map[string]func(t *testing.T, disk *memfs.FS, keys *Keys, replace func()) *memfs.FS{
	"killed after the rename": func(t *testing.T, disk *memfs.FS, _ *Keys, replace func()) *memfs.FS {
		return killedBefore(t, disk, vfs.OpCreate, replace)
	},
	"killed before the sync": func(t *testing.T, disk *memfs.FS, _ *Keys, replace func()) *memfs.FS {
		return killedBefore(t, disk, vfs.OpSyncDir, replace)
	},
	"failed sync": func(t *testing.T, disk *memfs.FS, keys *Keys, replace func()) *memfs.FS {
		faults := faultfs.New(disk)
		fault := faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, Sync: vfs.SyncDropped})
		keys.o.FS = faults
		replace()
		if fault.Fired() == 0 {
			t.Fatal("KEYS was not replaced")
		}
		return disk
	},
}

// killedBefore runs replace, and returns the disk as it was before the first op of that
// kind after the rename of KEYS.
func killedBefore(t *testing.T, disk *memfs.FS, kind vfs.OpKind, replace func()) (killed *memfs.FS) {
	t.Helper()
	renamed := false
	disk.SetHook(func(op vfs.Op) {
		if renamed && killed == nil && op.Kind == kind {
			killed = disk.Clone()
		}
		renamed = renamed || op.Kind == vfs.OpRename
	})
	replace()
	disk.SetHook(nil)
	if killed == nil {
		t.Fatal("KEYS was not replaced")
	}
	return killed
}

// masters are two master keys, the first of which is current.
type masters [2]*provider

func newMasters() masters {
	return masters{{"m", bytes.Repeat([]byte{7}, KeySize)}, {"next", bytes.Repeat([]byte{9}, KeySize)}}
}

func (m *masters) swap() { m[0], m[1] = m[1], m[0] }

func (m *masters) Current(ctx context.Context) (string, []byte, error) { return m[0].Current(ctx) }

func (m *masters) Key(ctx context.Context, id string) ([]byte, error) {
	if id == m[0].id {
		return m[0].Key(ctx, id)
	}
	return m[1].Key(ctx, id)
}

// wantMaster demands that the master key of p opens the database after any crash.
func wantMaster(t *testing.T, disk *memfs.FS, p *provider) {
	t.Helper()
	for i, kind := range memfs.CrashKinds() {
		o := options(disk.Crash(kind, rand.New(rand.NewPCG(1, uint64(i)))))
		o.Provider = p
		if _, err := Load(t.Context(), o); err != nil {
			t.Errorf("%v: %v", kind, err)
		}
	}
}

// The process that rotates the master key dies before the new KEYS is durable, or its sync
// fails. The next process finds the new KEYS in the page cache. Its rotation returns nil, so
// the old key may be discarded.
func TestKeys_RotationThatAnotherProcessBeganIsDurable(t *testing.T) {
	t.Parallel()
	for name, leave := range leaves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk, m := memfs.New(), newMasters()
			must(t, disk.MkdirAll("/db"))
			o := options(disk)
			o.Provider = &m
			keys, err := Create(t.Context(), o)
			must(t, err)
			m.swap()
			disk = leave(t, disk, keys, func() { _ = keys.RotateMaster(t.Context()) })
			o.FS = disk
			keys, err = Load(t.Context(), o)
			must(t, err)
			must(t, keys.RotateMaster(t.Context()))
			wantMaster(t, disk, m[0])
		})
	}
}

// The same with a new data key. The next process uses it for a file.
func TestKeys_DataKeyThatAnotherProcessMadeIsDurable(t *testing.T) {
	t.Parallel()
	for name, leave := range leaves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk, keys := withOldKey(t)
			disk = leave(t, disk, keys, func() { _ = keys.newest() })
			keys, err := Load(t.Context(), options(disk))
			must(t, err)
			ref, _, err := keys.NewFile("file")
			must(t, err)
			if ref.ID != 2 {
				t.Fatalf("the file has data key %d, want 2", ref.ID)
			}
			for i, kind := range memfs.CrashKinds() {
				after := options(disk.Crash(kind, rand.New(rand.NewPCG(1, uint64(i)))))
				keys, err := Load(t.Context(), after)
				must(t, err)
				if _, err := keys.OpenFile(ref, "file"); err != nil {
					t.Errorf("%v: %v", kind, err)
				}
			}
		})
	}
}

// withOldKey returns keys on a disk. Their next file gets a new data key.
func withOldKey(t *testing.T) (*memfs.FS, *Keys) {
	t.Helper()
	disk := memfs.New()
	must(t, disk.MkdirAll("/db"))
	o := options(disk)
	o.MaxAge = 0
	keys, err := Create(t.Context(), o)
	must(t, err)
	return disk, keys
}

func TestKeys_LoadOnAFullDisk(t *testing.T) {
	t.Parallel()
	for name, leave := range leaves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk, keys := withOldKey(t)
			disk = leave(t, disk, keys, func() { _ = keys.newest() })
			for _, op := range []vfs.OpKind{vfs.OpCreate, vfs.OpWrite} {
				full := faultfs.New(disk.Clone())
				full.Add(faultfs.Rule{Op: op, Err: vfs.ErrNoSpace, Forever: true})
				_, err := Load(t.Context(), options(full))
				must(t, err)
			}
		})
	}
}

// A sync of the name of KEYS has failed, and the disk is full when the next process opens the
// database. The process after that finds space.
func TestKeys_ADataKeyIsDurableBeforeAFileHasItAlsoAfterAFullDisk(t *testing.T) {
	t.Parallel()
	for _, op := range []vfs.OpKind{vfs.OpCreate, vfs.OpWrite} {
		disk, keys := withOldKey(t)
		leaves["failed sync"](t, disk, keys, func() { _ = keys.newest() })
		full := faultfs.New(disk)
		full.Add(faultfs.Rule{Op: op, Category: vfs.CatKeys, Err: vfs.ErrNoSpace, Forever: true})
		keys, err := Load(t.Context(), options(full))
		must(t, err)
		seal := func(when string, disk *memfs.FS, want uint32) {
			t.Helper()
			ref, _, err := keys.NewFile("file")
			must(t, err)
			if ref.ID != want {
				t.Errorf("%v, %s: the file has data key %d, want %d", op, when, ref.ID, want)
			}
			after, err := Load(t.Context(), options(disk.Crash(memfs.KeepNone, nil)))
			must(t, err)
			if _, err := after.OpenFile(ref, "file"); err != nil {
				t.Errorf("%v, %s: after a power cut: %v", op, when, err)
			}
		}
		seal("on the full disk", disk, 1)
		killed := disk.Clone()
		full.Clear()
		seal("when there is space again", disk, 2)
		if op == vfs.OpWrite { // then the mark that the sync has failed is left
			keys, err = Load(t.Context(), options(killed))
			must(t, err)
			seal("in the next process", killed, 2)
		}
	}
}

func TestKeys_ReadersChangeNothing(t *testing.T) {
	t.Parallel()
	for name, leave := range leaves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk, keys := withOldKey(t)
			disk = leave(t, disk, keys, func() { _ = keys.newest() })
			disk.SetHook(func(op vfs.Op) {
				if op.Kind.Mutates() || op.Kind == vfs.OpSyncDir {
					t.Errorf("a reader does %v", op)
				}
			})
			o := options(disk)
			o.ReadOnly = true
			keys, err := Load(t.Context(), o)
			must(t, err)
			must(t, keys.Reload(t.Context()))
		})
	}
}

// A rotation fails after its rename, and the operator makes the old key current again.
func TestKeys_RotationBackAfterAFailureIsDurable(t *testing.T) {
	t.Parallel()
	for _, rule := range []faultfs.Rule{{Op: vfs.OpRename, Done: true}, {Op: vfs.OpSyncDir, Sync: vfs.SyncKept}} {
		disk, m := memfs.New(), newMasters()
		must(t, disk.MkdirAll("/db"))
		faults := faultfs.New(disk)
		o := options(faults)
		o.Provider = &m
		keys, err := Create(t.Context(), o)
		must(t, err)
		m.swap()
		faults.Add(rule)
		if err := keys.RotateMaster(t.Context()); !errors.Is(err, vfs.ErrIO) {
			t.Fatal(err)
		}
		m.swap()
		must(t, keys.RotateMaster(t.Context()))
		wantMaster(t, disk, m[0])
	}
}

// A follower has read a new data key whose KEYS then failed to become durable. The writer
// makes another data key, which gets another number.
func TestKeys_NumberOfADataKeyIsUsedOnce(t *testing.T) {
	t.Parallel()
	disk, keys := withOldKey(t)
	faults := faultfs.New(disk)
	keys.o.FS = faults
	faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, Err: vfs.ErrTooManyFiles, Sync: vfs.SyncNotTried})
	if d := keys.newest(); d.id != 1 {
		t.Fatalf("data key %d, want 1", d.id)
	}
	o := options(disk)
	o.ReadOnly = true
	follower, err := Load(t.Context(), o)
	must(t, err)
	if n := follower.DataKeys(); n != 2 {
		t.Fatalf("the follower has %d data keys, want 2", n)
	}
	write(t, keys.FS(disk), testName, []byte("content"))
	if got, err := readAll(follower.FS(disk), testName); err != nil || string(got) != "content" {
		t.Errorf("the follower reads %q, %v", got, err)
	}
}

// A follower has read a new data key whose KEYS then failed to become durable. It makes a
// checkpoint with that key after the writer has replaced KEYS again.
func TestKeys_ADataKeyThatAFollowerReadStaysInKEYS(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(t *testing.T, m *masters, keys *Keys){
		"rotation": func(t *testing.T, m *masters, keys *Keys) { m.swap(); must(t, keys.RotateMaster(t.Context())) },
		"new data key": func(t *testing.T, _ *masters, keys *Keys) {
			keys.askAgain = time.Time{}
			if d := keys.newest(); d.id != 2 {
				t.Errorf("data key %d, want 2", d.id)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk, m := memfs.New(), newMasters()
			must(t, disk.MkdirAll("/db"))
			must(t, disk.MkdirAll("/copy"))
			faults := faultfs.New(disk)
			o := options(faults)
			o.Provider, o.MaxAge = &m, 0
			keys, err := Create(t.Context(), o)
			must(t, err)
			faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, Sync: vfs.SyncKept})
			if d := keys.newest(); d.id != 1 {
				t.Fatalf("data key %d, want 1", d.id)
			}
			o.ReadOnly = true
			follower, err := Load(t.Context(), o)
			must(t, err)
			replace(t, &m, keys)
			write(t, follower.FS(disk), "/copy/000001.table", []byte("content"))
			must(t, follower.CopyTo("/copy"))
			c := options(disk)
			c.Provider, c.Dir, c.ReadOnly = &m, "/copy", true
			copied, err := Load(t.Context(), c)
			must(t, err)
			got, err := readAll(copied.FS(disk), "/copy/000001.table")
			if err != nil || string(got) != "content" {
				t.Errorf("the copy has %q, %v", got, err)
			}
		})
	}
}

func TestKeys_CopyOfDamagedKEYSFails(t *testing.T) {
	t.Parallel()
	disk, keys, _ := newFS(t)
	must(t, disk.MkdirAll("/copy"))
	f, err := disk.OpenReadWrite("/db/KEYS", vfs.CatKeys)
	must(t, err)
	_, err = f.WriteAt([]byte{1}, 70)
	must(t, err)
	must(t, f.Close())
	if err := keys.CopyTo("/copy"); !errors.Is(err, base.ErrCorrupt) {
		t.Errorf("a copy of a damaged KEYS: %v", err)
	}
}

// A rotation fails after its rename. The operator keeps the old key, and makes a copy.
func TestKeys_CopyAfterAFailedRotationHasTheMasterKeyOfTheDatabase(t *testing.T) {
	t.Parallel()
	disk, m := memfs.New(), newMasters()
	must(t, disk.MkdirAll("/db"))
	must(t, disk.MkdirAll("/copy"))
	faults := faultfs.New(disk)
	o := options(faults)
	o.Provider = &m
	keys, err := Create(t.Context(), o)
	must(t, err)
	m.swap()
	faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, Sync: vfs.SyncKept})
	if err := keys.RotateMaster(t.Context()); !errors.Is(err, vfs.ErrIO) {
		t.Fatal(err)
	}
	m.swap()
	must(t, keys.CopyTo("/copy"))
	c := options(disk)
	c.Provider, c.Dir, c.ReadOnly = m[0], "/copy", true
	if _, err := Load(t.Context(), c); err != nil {
		t.Errorf("with the master key that the database had before and after: %v", err)
	}
}

type fixedClock struct{ now time.Time }

func (c *fixedClock) Now() time.Time { return c.now }

// The machine began with a wrong clock.
func TestKeys_ADataKeyFromTheFutureIsOld(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	must(t, disk.MkdirAll("/db"))
	clock := &fixedClock{time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}
	o := options(disk)
	o.Clock, o.MaxAge = clock, time.Hour
	keys, err := Create(t.Context(), o)
	must(t, err)
	clock.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 3 {
		if d := keys.newest(); d.id != uint32(i+2) {
			t.Errorf("after the clock was set right, and %d hours: data key %d", i, d.id)
		}
		if d := keys.newest(); d.id != uint32(i+2) {
			t.Errorf("again: data key %d", d.id)
		}
		clock.now = clock.now.Add(time.Hour)
	}
}

func TestKeys_OneWarningSaysThatKEYSIsFull(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	must(t, disk.MkdirAll("/db"))
	var warnings []any
	o := options(disk)
	o.MaxAge, o.Report = 0, func(e any) { warnings = append(warnings, e) }
	keys, err := Create(t.Context(), o)
	must(t, err)
	last := keys.newest()
	f := keys.now()
	f.keys = nil
	for n := range keysMax - 1 {
		last.id = uint32(n + 1)
		f.keys = append(f.keys, last)
	}
	keys.mu.Lock()
	keys.file = f
	keys.mu.Unlock()
	for i := range 3 {
		if d := keys.newest(); d.id != keysMax || len(warnings) != min(i, 1) {
			t.Errorf("new file %d has data key %d, and there are %d warnings", i+1, d.id, len(warnings))
		}
	}
	if got, err := Load(t.Context(), options(disk)); err != nil || got.DataKeys() != keysMax {
		t.Errorf("KEYS has %d data keys, %v", got.DataKeys(), err)
	}
}

// A hanging provider answers when its context is done.
type hanging struct {
	Provider
	hangs bool
}

func (h *hanging) Key(ctx context.Context, id string) ([]byte, error) {
	if h.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.Provider.Key(ctx, id)
}

func TestKeys_AReaderOfANewFileDoesNotWaitForeverForTheProvider(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			disk, keys := withOldKey(t)
			p := &hanging{Provider: &provider{"m", bytes.Repeat([]byte{7}, KeySize)}}
			o := options(disk)
			o.ReadOnly, o.Provider = true, p
			follower, err := Load(t.Context(), o)
			must(t, err)
			defer follower.End()
			write(t, keys.FS(disk), testName, []byte("content")) // with a new data key
			p.hangs = true
			if closed {
				time.AfterFunc(time.Second, follower.End)
			}
			began := time.Now()
			_, err = readAll(follower.FS(disk), testName)
			if !errors.Is(err, base.ErrKey) {
				t.Errorf("the provider does not answer: %v", err)
			}
			if waited := time.Since(began); closed != (waited == time.Second) || waited > readerPatience {
				t.Errorf("closed after a second: %v; the reader waited %v", closed, waited)
			}
		})
	}
}

// A countedProvider counts what it is asked.
type countedProvider struct {
	Provider
	asked int
}

func (p *countedProvider) Key(ctx context.Context, id string) ([]byte, error) {
	p.asked++
	return p.Provider.Key(ctx, id)
}

func TestKeys_AProviderIsNotAskedForEachFileWhileKEYSCannotBeReplaced(t *testing.T) {
	t.Parallel()
	disk, _ := withOldKey(t)
	faults := faultfs.New(disk)
	p := &countedProvider{Provider: &provider{"m", bytes.Repeat([]byte{7}, KeySize)}}
	o := options(faults)
	o.Provider, o.MaxAge = p, 0
	keys, err := Load(t.Context(), o)
	must(t, err)
	p.asked = 0
	faults.Add(faultfs.Rule{Op: vfs.OpCreate, Category: vfs.CatKeys, Err: vfs.ErrPermission, Forever: true})
	for range 10 {
		_, _, err := keys.NewFile("file")
		must(t, err)
	}
	if p.asked != 1 {
		t.Errorf("the provider was asked %d times, want once", p.asked)
	}
}

// A deaf provider ignores its context, and keeps its answer back while it hangs.
type deaf struct {
	Provider
	hangs  atomic.Bool
	answer chan struct{}
}

func (d *deaf) Current(ctx context.Context) (string, []byte, error) {
	id, key, err := d.Provider.Current(ctx)
	if d.hangs.Load() {
		<-d.answer
	}
	return id, key, err
}

func TestKeys_ARotationWaitsNoLongerThanItsContextAndTakesNoLateAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, m := memfs.New(), newMasters()
		must(t, disk.MkdirAll("/db"))
		p := &deaf{Provider: &m, answer: make(chan struct{})}
		o := options(disk)
		o.Provider = p
		keys, err := Create(t.Context(), o)
		must(t, err)
		p.hangs.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := keys.RotateMaster(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the provider does not answer: %v", err)
		}
		synctest.Wait() // the late answer will be the old key
		m.swap()
		p.hangs.Store(false)
		rotated := make(chan error, 1)
		go func() { rotated <- keys.RotateMaster(t.Context()) }()
		synctest.Wait()
		close(p.answer)
		must(t, <-rotated)
		wantMaster(t, disk, m[0])
	})
}

// An exiting provider ends the goroutine that asks it.
type exiting struct {
	Provider
	exits bool
}

func (e *exiting) Current(ctx context.Context) (string, []byte, error) {
	if e.exits {
		runtime.Goexit()
	}
	return e.Provider.Current(ctx)
}

func (e *exiting) Key(ctx context.Context, id string) ([]byte, error) {
	if e.exits {
		runtime.Goexit()
	}
	return e.Provider.Key(ctx, id)
}

func TestKeys_AProviderThatEndsItsGoroutineIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &exiting{Provider: &provider{"m", bytes.Repeat([]byte{7}, KeySize)}, exits: true}
		asking := patientOf(t.Context(), p)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if key, err := asking.Key(ctx, "m"); key != nil {
			t.Errorf("Key: %x, %v", key, err)
		}
		if _, key, err := asking.Current(ctx); key != nil {
			t.Errorf("Current: %x, %v", key, err)
		}
		p.exits = false
		_, err := asking.Key(ctx, "m")
		must(t, err)
		_, _, err = asking.Current(ctx)
		must(t, err)
	})
}

// A fresh provider makes a key for each caller, and keeps none.
type fresh struct {
	Provider
	last weak.Pointer[byte]
}

func (f *fresh) Key(context.Context, string) ([]byte, error) {
	key := bytes.Repeat([]byte{7}, KeySize)
	f.last = weak.Make(&key[0])
	return key, nil
}

func TestKeys_AnAnswerOfTheProviderIsNotKeptOnceItIsTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := new(fresh)
		asking := patientOf(t.Context(), p)
		_, err := asking.Key(t.Context(), "m")
		must(t, err)
		synctest.Wait() // the goroutine of the call has ended
		if runtime.GC(); p.last.Value() != nil {
			t.Error("the master key is still in memory")
		}
	})
}

func TestKeyFile_HasAtMostSoManyDataKeys(t *testing.T) {
	t.Parallel()
	f := keyFile{master: "m"}
	for n := range uint32(keysMax) {
		f.keys = append(f.keys, dataKey{id: n + 1})
	}
	decode := func() error {
		b, err := f.append(nil, make([]byte, KeySize))
		must(t, err)
		_, _, _, err = decodeKeyFile(b)
		return err
	}
	must(t, decode())
	f.keys = append(f.keys, dataKey{id: keysMax + 1})
	if err := decode(); !errors.Is(err, base.ErrCorrupt) {
		t.Errorf("a KEYS with %d data keys: %v", len(f.keys), err)
	}
}
