package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A fullFS holds up the syncs of full segments of the log. The log opens each segment three
// times: to write it, and twice for the syncs of commits. The first sync of the first
// handle makes the header durable; the second one is that of the full segment.
type fullFS struct {
	vfs.FS
	held chan struct{} // closed when syncs need not wait any more

	mu    sync.Mutex
	opens map[string]int // since the file was created
}

type fullFile struct {
	vfs.File
	of    *fullFS
	syncs int
}

func (f *fullFS) Create(path string, cat vfs.Category) (vfs.File, error) {
	return f.opened(path, cat, f.FS.Create)
}

func (f *fullFS) OpenReadWrite(path string, cat vfs.Category) (vfs.File, error) {
	return f.opened(path, cat, f.FS.OpenReadWrite)
}

func (f *fullFS) opened(path string, cat vfs.Category, open func(string, vfs.Category) (vfs.File, error)) (vfs.File, error) {
	file, err := open(path, cat)
	if err != nil || cat != vfs.CatLog {
		return file, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opens[path]++
	if f.opens[path]%3 != 1 {
		return file, nil
	}
	return &fullFile{File: file, of: f}, nil
}

func (f *fullFile) SyncData() error {
	if f.syncs++; f.syncs > 1 {
		<-f.of.held
	}
	return f.File.SyncData()
}

// CheckPending cuts the power n times while full segments of the log are not durable. Each time
// is in a bubble, which tells when a commit waits.
func CheckPending(t *testing.T, seed uint64, n int) error {
	t.Helper()
	return testkit.Times(n, func(i int) (err error) {
		synctest.Test(t, func(*testing.T) { err = checkPending(seed + uint64(i)) })
		return err
	})
}

func checkPending(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	disk := memfs.New()
	fs := &fullFS{FS: disk, held: make(chan struct{}), opens: map[string]int{}}
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs, MemtableSize: 16 << 20})
	if err != nil {
		return err
	}
	p := &pendingRun{disk: disk, db: db, rng: rng}
	err = p.run()
	close(fs.held)
	p.ending.Wait()
	if err = errors.Join(err, p.failed.Get(), db.Close()); err != nil {
		return err
	}
	return recoveredTo(disk, p.version, whole)
}

// A pendingRun is a database whose log does not become durable.
type pendingRun struct {
	disk    *memfs.FS
	db      *stoat.DB
	rng     *rand.Rand
	version uint64 // the newest one
	ending  sync.WaitGroup
	failed  testkit.FirstError
}

// set commits another key.
func (p *pendingRun) set(d stoat.Durability) (version uint64, err error) {
	var last stoat.Txn
	key, value := fmt.Appendf(nil, "%08d", p.version+1), []byte(testkit.Filled(400))
	err = p.db.Update(func(tx stoat.Txn) error { last = tx; return tx.Set(key, value) }, stoat.WithDurability(d))
	if err != nil {
		return 0, err
	}
	p.version = last.CommitVersion()
	return p.version, nil
}

// whole demands that every commit up to a version set a key.
func whole(tx stoat.Txn) error { return wholeAfter(0)(tx) }

// wholeAfter demands the same, of all but so many commits.
func wholeAfter(others uint64) func(tx stoat.Txn) error {
	return func(tx stoat.Txn) error {
		n := others
		it := tx.Iterator(stoat.IterOptions{KeysOnly: true})
		defer it.Close()
		for it.Next() {
			n++
		}
		if v := tx.ReadVersion(); n != v {
			return fmt.Errorf("version %d has %d keys", v, n-others)
		}
		return it.Err()
	}
}

func (p *pendingRun) run() error {
	acked, err := p.set(stoat.Synced)
	if err != nil {
		return err
	}
	for rotations := 1 + p.rng.Int64N(2); p.db.Stats().Log.Rotations < rotations; {
		if _, err := p.set(stoat.Buffered); err != nil {
			return err
		}
	}
	for range p.rng.IntN(100) {
		if _, err := p.set(stoat.Buffered); err != nil {
			return err
		}
	}

	// A power cut takes any part of what is not durable.
	for range 10 {
		if err := recoveredTo(testkit.RandomCut(p.rng)(p.disk), acked, whole); err != nil {
			return fmt.Errorf("full segments that are not durable, then a power cut: %w", err)
		}
	}
	// A process that was killed leaves everything, and the next one makes it durable.
	killed := p.disk.Clone()
	after, err := stoat.Open(testkit.Dir, &stoat.Options{FS: killed})
	if err != nil {
		return err
	}
	err = after.Update(func(tx stoat.Txn) error { return tx.Delete([]byte("none")) })
	cut := killed.Crash(memfs.KeepNone, p.rng)
	if err = errors.Join(err, after.Close()); err != nil {
		return err
	}
	if err := recoveredTo(cut, p.version+1, wholeAfter(1)); err != nil {
		return fmt.Errorf("full segments, then a kill and a power cut: %w", err)
	}
	return p.synced()
}

// synced begins a durable commit. It must not end before the full segments are durable.
func (p *pendingRun) synced() error {
	done := make(chan struct{})
	p.ending.Go(func() {
		defer close(done)
		_, err := p.set(stoat.Synced)
		p.failed.Set(err)
	})
	synctest.Wait()
	select {
	case <-done:
		return errors.New("a commit was acknowledged before the log before it was durable")
	default:
		return nil
	}
}
