package follow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// loggedMemtable is the size in bytes of memtables that no flush frees, with segments of a
// quarter of that.
const loggedMemtable = 512 << 10

// A loggedLife is a writer that was killed. All that it wrote is in the log.
type loggedLife struct {
	*writer
	disk *memfs.FS
	// older are earlier states of the disk.
	older []*memfs.FS
	// logs are the paths of the log, without the last segment: nothing behind a frame of that
	// one proves that it was written.
	logs []string
}

// newLoggedLife makes two spans.
func newLoggedLife(rng *rand.Rand) (*loggedLife, error) {
	l := &loggedLife{disk: memfs.New()}
	l.writer = &writer{history: newHistory(), rng: rng, dir: testkit.Dir, memtable: loggedMemtable}
	l.options = stoat.Options{MergeFunction: tail.Name(), MergeFunctions: []stoat.MergeFunction{tail}, Keys: testkit.KeysIf(rng.IntN(4) == 0)}
	for range 2 {
		l.fs = l.disk
		if err := l.open(); err != nil {
			return nil, err
		}
		disk, err := l.fillSegments()
		if err = errors.Join(err, l.db.Close()); err != nil {
			return nil, err
		}
		l.disk = disk
	}
	return l, nil
}

// fillSegments commits until two segments of the log are full that no flush has freed: damage
// of a free segment harms nothing. It returns the disk as a power cut would leave it.
func (l *loggedLife) fillSegments() (*memfs.FS, error) {
	// The flush of what Open replayed begins with the first commit.
	if err := errors.Join(l.commit(stoat.Synced), testkit.WaitForFlushes(l.db)); err != nil {
		return nil, err
	}
	for {
		begin, flushes := l.disk.Clone(), l.db.Stats().Flushes
		for l.db.Stats().Flushes == flushes {
			disk, err := l.commits()
			if err != nil {
				return nil, err
			}
			if filled, err := l.findLogs(disk, begin); err != nil || filled > 1 && l.db.Stats().Flushes == flushes {
				return disk, err
			}
		}
	}
}

// commits commits a few times. The last commit is synced.
func (l *loggedLife) commits() (*memfs.FS, error) {
	err := testkit.Times(8+l.rng.IntN(8), func(int) error {
		if l.rng.IntN(10) == 0 {
			l.older = append(l.older, l.disk.Clone())
		}
		return l.commit(stoat.Buffered)
	})
	l.older = append(l.older, l.disk.Clone())
	if err == nil {
		err = errors.Join(l.commit(stoat.Synced), testkit.WaitForFlushes(l.db))
	}
	return l.disk.Clone(), err
}

// findLogs finds the files of the log on a disk that the last commit has not changed. It
// returns how many of them changed since begin.
func (l *loggedLife) findLogs(disk, begin *memfs.FS) (filled int, err error) {
	l.logs = nil
	before := l.older[len(l.older)-1]
	names, err := disk.List(testkit.Dir)
	for _, name := range names {
		path := disk.Join(testkit.Dir, name)
		if err != nil || !strings.HasSuffix(name, ".log") {
			continue
		}
		var content []byte
		if content, err = testkit.ReadFile(disk, path); err == nil && holds(before, path, content) {
			l.logs = append(l.logs, path)
			if !holds(begin, path, content) {
				filled++
			}
		}
	}
	return filled, err
}

// holds reports whether a disk has a file with this content.
func holds(disk *memfs.FS, path string, content []byte) bool {
	was, err := testkit.ReadFile(disk, path)
	return err == nil && slices.Equal(was, content)
}

// RunDamages damages the log of a killed writer n times. A follower must find that, or show
// everything. RunDamages returns how often a follower found damage.
func RunDamages(seed uint64, n int) (found int, err error) {
	rng := rand.New(rand.NewPCG(seed, 43))
	l, err := newLoggedLife(rng)
	if err != nil {
		return 0, err
	}
	for range n {
		disk := l.disk.Clone()
		what, err := l.damage(disk)
		if err == nil {
			var refused bool
			if refused, err = l.judgeDamaged(disk); refused {
				found++
			}
		}
		if err != nil {
			return found, fmt.Errorf("%s: %w", what, err)
		}
	}
	return found, nil
}

// damage damages a file of the log on a disk, and says how.
func (l *loggedLife) damage(disk *memfs.FS) (what string, err error) {
	path := l.logs[l.rng.IntN(len(l.logs))]
	content, err := testkit.ReadFile(disk, path)
	if err != nil {
		return "", err
	}
	if l.rng.IntN(3) == 0 {
		older, err := testkit.ReadFile(l.older[l.rng.IntN(len(l.older))], path)
		if err == nil {
			return path + " is an older copy", errors.Join(disk.Remove(path), testkit.WriteFile(disk, path, older))
		}
	}
	used := len(content)
	for used > 1 && content[used-1] == 0 {
		used--
	}
	at := l.rng.IntN(used)
	bad := slices.Clone(content)
	bad[at] ^= 1 << l.rng.IntN(8)
	return fmt.Sprintf("byte %d of %s is changed", at, path), errors.Join(disk.Remove(path), testkit.WriteFile(disk, path, bad))
}

// judgeDamaged reports whether a follower finds damage. Otherwise it must show everything.
func (l *loggedLife) judgeDamaged(disk *memfs.FS) (refused bool, err error) {
	o := l.options
	o.FS, o.FollowEvery = disk, -1
	db, err := stoat.OpenFollower(l.dir, &o)
	if err == nil {
		r := &reader{db: db, history: l.history}
		if err = r.look(l.rng); err == nil && r.seen != l.newest() {
			err = fmt.Errorf("the follower is at version %d of %d", r.seen, l.newest())
		}
		if err == nil {
			_, err = db.Check(context.Background(), stoat.CheckOptions{})
		}
		err = errors.Join(err, r.close())
	}
	if errors.Is(err, stoat.ErrCorrupt) {
		return true, nil
	}
	return false, err
}

// RunBusyCheck checks the files of a writer as a follower does. The writer frees segments of
// the log and uses them again meanwhile.
func RunBusyCheck(seed uint64) (err error) {
	rng := rand.New(rand.NewPCG(seed, 44))
	w, err := newWriter(rng, memfs.New(), testkit.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.db.Close()) }()
	watched := &testkit.WatchedLog{FS: w.fs}
	o := w.options
	o.FS, o.FollowEvery = watched, -1
	db, err := stoat.OpenFollower(w.dir, &o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	worked := false
	for range 4 {
		if err := w.burst(); err != nil {
			return err
		}
		did, err := checkBeside(w, db, watched)
		if err != nil {
			return err
		}
		worked = worked || did
	}
	if !worked {
		return errors.New("the writer has not worked beside any check")
	}
	return nil
}

// checkBeside checks a follower. The writer works for a while within one of the reads, if there
// are as many.
func checkBeside(w *writer, follower *stoat.DB, watched *testkit.WatchedLog) (worked bool, err error) {
	if err := follower.Refresh(context.Background()); err != nil {
		return false, err
	}
	left := 1 + w.rng.IntN(6) // reads until the writer works
	var errWriter error
	watched.Read = func(string) {
		if left--; left == 0 {
			errWriter = errors.Join(w.burst(), testkit.WaitForFlushes(w.db), w.burst(), w.burst(), testkit.WaitForFlushes(w.db))
		}
	}
	got, err := follower.Check(context.Background(), stoat.CheckOptions{})
	watched.Read = nil
	if err = errors.Join(err, errWriter); err != nil {
		return false, err
	}
	want, err := w.db.Check(context.Background(), stoat.CheckOptions{})
	if err == nil && got.LogRecords < want.LogRecords {
		err = fmt.Errorf("the follower found %d transactions in the log, want at least %d", got.LogRecords, want.LogRecords)
	}
	return left <= 0, err
}
