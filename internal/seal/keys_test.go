package seal

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

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

// afterRename runs f, and returns the disk as it was after the next rename, before the
// directory was synced.
func afterRename(t *testing.T, disk *memfs.FS, f func()) (killed *memfs.FS) {
	t.Helper()
	renamed := false
	disk.SetHook(func(op vfs.Op) {
		if renamed && killed == nil {
			killed = disk.Clone()
		}
		renamed = renamed || op.Kind == vfs.OpRename
	})
	f()
	disk.SetHook(nil)
	if killed == nil {
		t.Fatal("no rename")
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
	begin := map[string]func(disk *memfs.FS, o Options, keys *Keys) *memfs.FS{
		"killed": func(disk *memfs.FS, _ Options, keys *Keys) *memfs.FS {
			return afterRename(t, disk, func() { must(t, keys.RotateMaster(t.Context())) })
		},
		"failed": func(disk *memfs.FS, o Options, keys *Keys) *memfs.FS {
			faults := faultfs.New(disk)
			faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, Sync: vfs.SyncDropped})
			keys.o.FS = faults
			if err := keys.RotateMaster(t.Context()); !errors.Is(err, vfs.ErrIO) {
				t.Fatal(err)
			}
			return disk
		},
	}
	for name, begin := range begin {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk, m := memfs.New(), newMasters()
			must(t, disk.MkdirAll("/db"))
			o := options(disk)
			o.Provider = &m
			keys, err := Create(t.Context(), o)
			must(t, err)
			m.swap()
			disk = begin(disk, o, keys)
			o.FS = disk
			keys, err = Load(t.Context(), o)
			must(t, err)
			must(t, keys.RotateMaster(t.Context()))
			wantMaster(t, disk, m[0])
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
