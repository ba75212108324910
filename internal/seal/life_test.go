package seal

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A ring is a provider of numbered keys. Those below lost are discarded.
type ring struct{ current, lost int }

func ringKey(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, KeySize) }

func (r *ring) Current(context.Context) (string, []byte, error) {
	return fmt.Sprint(r.current), ringKey(r.current), nil
}

func (r *ring) Key(_ context.Context, id string) ([]byte, error) {
	var i int
	fmt.Sscan(id, &i)
	if i < r.lost || i > r.current {
		return nil, fmt.Errorf("key %d is not in %d to %d", i, r.lost, r.current)
	}
	return ringKey(i), nil
}

// Files get new data keys, master keys rotate and are discarded, calls fail, and processes and
// machines die. Each durable file stays readable, and so does each copy.
func TestKeys_ALifeLosesNoDurableFile(t *testing.T) {
	t.Parallel()
	errs := []faultfs.Rule{{}, {Done: true}, {Err: vfs.ErrNoSpace}, {Err: vfs.ErrTooManyFiles, Sync: vfs.SyncNotTried}, {Sync: vfs.SyncDropped}, {Sync: vfs.SyncKept}, {Partial: 20}, {Err: vfs.ErrPermission}}
	ops := []vfs.OpKind{vfs.OpCreate, vfs.OpWrite, vfs.OpSyncData, vfs.OpRename, vfs.OpSyncDir, vfs.OpRemove, vfs.OpStat, vfs.OpClose}
	rotated, made := 0, 0
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 3))
		disk := memfs.New()
		must(t, disk.MkdirAll("/db"))
		r := &ring{}
		clock := &fixedClock{time.Unix(1_700_000_000, 0)}
		opts := func(fs vfs.FS) Options {
			o := options(fs)
			o.Provider, o.Clock, o.MaxAge, o.Random = r, clock, time.Hour, rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(rng.IntN(256)), byte(rng.IntN(256))})
			return o
		}
		keys, err := Create(t.Context(), opts(vfs.Strict(disk, "/db")))
		must(t, err)
		var files []string // durable
		next := 1
		verify := func(what string, d *memfs.FS) {
			t.Helper()
			o := opts(d)
			o.ReadOnly = true
			k, err := Load(t.Context(), o)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, what, err)
			}
			for _, f := range files {
				if got, err := readAll(k.FS(d), f); err != nil || string(got) != f {
					t.Fatalf("seed %d: %s: %s: %q, %v", seed, what, f, got, err)
				}
			}
		}
		for range 3 { // processes
			faults := faultfs.New(disk)
			strict := vfs.Strict(faults, "/db")
			keys, err = Load(t.Context(), opts(strict))
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			follower := opts(disk)
			follower.ReadOnly = true
			fk, err := Load(t.Context(), follower)
			must(t, err)
			for range 12 {
				faults.Clear()
				if rng.IntN(2) == 0 {
					rule := errs[rng.IntN(len(errs))]
					rule.Op, rule.Nth, rule.Path = ops[rng.IntN(len(ops))], 1+rng.Int64N(3), "/db*"
					faults.Add(rule)
				}
				switch rng.IntN(6) {
				case 0:
					clock.now = clock.now.Add(2 * time.Hour)
				case 1, 2: // a new file
					name := fmt.Sprintf("/db/%06d.table", next)
					next++
					fs := keys.FS(strict)
					f, err := fs.Create(name, vfs.CatTable)
					if err != nil {
						continue
					}
					_, err = f.WriteAt([]byte(name), 0)
					if err == nil {
						err = f.SyncData()
					}
					_ = f.Close()
					if err == nil && strict.SyncDir("/db") == nil {
						files = append(files, name)
					}
				case 3: // rotation
					r.current++
					if err := keys.RotateMaster(t.Context()); err == nil {
						r.lost = r.current
						rotated++
					}
				case 4: // a copy
					faults.Clear()
					copyKeys := keys
					if rng.IntN(2) == 0 {
						copyKeys = fk
						if fk.Reload(t.Context()) != nil {
							continue
						}
					}
					dir := fmt.Sprintf("/copy%d", next)
					next++
					must(t, disk.MkdirAll(dir))
					write(t, copyKeys.FS(disk), dir+"/000001.table", []byte("x"))
					must(t, copyKeys.CopyTo(dir))
					o := opts(disk)
					o.Dir, o.ReadOnly = dir, true
					k, err := Load(t.Context(), o)
					must(t, err)
					if _, err := readAll(k.FS(disk), dir+"/000001.table"); err != nil {
						t.Fatalf("seed %d: copy: %v", seed, err)
					}
				case 5: // follower reads
					_ = fk.Reload(t.Context())
					for _, f := range files {
						if _, err := readAll(fk.FS(disk), f); err != nil {
							t.Fatalf("seed %d: follower: %s: %v", seed, f, err)
						}
					}
				}
				verify("kill", disk.Clone())
				kinds := memfs.CrashKinds()
				verify("cut", disk.Crash(kinds[rng.IntN(len(kinds))], rng))
			}
			faults.Clear()
			if rng.IntN(2) == 0 {
				kinds := memfs.CrashKinds()
				disk = disk.Crash(kinds[rng.IntN(len(kinds))], rng)
			} else {
				disk = disk.Clone()
			}
		}
		made += int(keys.file.keys[len(keys.file.keys)-1].id)
	}
	if rotated == 0 || made <= 50 {
		t.Errorf("%d rotations, %d data keys", rotated, made)
	}
}
