package follow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Work is what lives came to.
type Work struct {
	Commits, Ingests, Drops, Restarts, Kills, Cuts, Taken, Opens, Reads, Flushes int
}

// Add adds the work of another life.
func (w *Work) Add(o Work) {
	w.Commits += o.Commits
	w.Ingests += o.Ingests
	w.Drops += o.Drops
	w.Restarts += o.Restarts
	w.Kills += o.Kills
	w.Cuts += o.Cuts
	w.Taken += o.Taken
	w.Opens += o.Opens
	w.Reads += o.Reads
	w.Flushes += o.Flushes
}

// A writer is a database under work, with its history.
type writer struct {
	*history
	rng      *rand.Rand
	fs       vfs.FS
	dir      string
	options  stoat.Options
	memtable int64 // bytes
	db       *stoat.DB
	fault    *faultfs.FS // what the writer reaches its files through
	spaces   map[string]*stoat.Keyspace
	names    []string
	work     Work
}

// newWriter opens a new database. Its followers open it with the options.
func newWriter(rng *rand.Rand, fs vfs.FS, dir string) (*writer, error) {
	w := &writer{history: newHistory(), rng: rng, fs: fs, dir: dir, memtable: testkit.SmallMemtable}
	w.options = stoat.Options{MergeFunction: tail.Name(), MergeFunctions: []stoat.MergeFunction{tail},
		Keys: testkit.KeysIf(rng.IntN(4) == 0)}
	return w, w.open()
}

func (w *writer) open() (err error) {
	o := w.options
	w.fault = faultfs.New(w.fs)
	o.FS, o.MemtableSize = w.fault, w.memtable
	if w.db, err = stoat.Open(w.dir, &o); err != nil {
		return err
	}
	w.spaces, w.names = map[string]*stoat.Keyspace{}, []string{""}
	infos, err := w.db.Keyspaces()
	for _, i := range infos {
		if err == nil && i.Name != "" {
			err = w.define(i.Name)
		}
	}
	if err == nil && w.spaces[other] == nil {
		err = w.define(other)
	}
	return err
}

// define opens a keyspace, which may be new.
func (w *writer) define(name string) (err error) {
	if w.spaces[name], err = w.db.Keyspace(name, nil); err == nil {
		w.names = append(w.names, name)
	}
	return err
}

// settled ends an operation that has made the proposed version.
func (w *writer) settled(err error) error {
	if err != nil {
		return err
	}
	v, err := testkit.VersionOf(w.db)
	if err == nil {
		err = w.settle(v)
	}
	return err
}

// step does something drawn.
func (w *writer) step() error {
	ctx := context.Background()
	switch w.rng.IntN(70) {
	case 0:
		return w.restart()
	case 1:
		return w.db.Compact(ctx, stoat.CompactOptions{})
	case 2:
		return w.db.Collect(ctx)
	case 3, 4:
		return w.ingest()
	case 5:
		return w.pass()
	case 6:
		return testkit.WaitForFlushes(w.db)
	case 7:
		w.propose(func(s state) { s.removeRange("/k1", "/k2") })
		return w.settled(w.db.DropPrefix(ctx, []byte("k1")))
	case 8:
		return w.burst()
	}
	return w.commit(testkit.RandomDurability(w.rng))
}

// burst commits about two memtables' worth.
func (w *writer) burst() error {
	return testkit.Times(100, func(int) error { return w.commit(stoat.Buffered) })
}

// commit commits a few writes.
func (w *writer) commit(durability stoat.Durability) error {
	writes := draw(w.rng, w.names)
	w.propose(func(s state) { s.apply(writes) })
	w.work.Commits++
	err := w.settled(w.db.Update(func(tx stoat.Txn) error { return put(tx, w.spaces, writes) }, stoat.WithDurability(durability)))
	if err == nil && durability == stoat.Synced {
		w.keep(w.newest())
	}
	return err
}

// ingest ingests a few entries.
func (w *writer) ingest() error {
	name := w.names[w.rng.IntN(len(w.names))]
	var writes []write
	for i := range keysMax {
		if w.rng.IntN(6) == 0 {
			writes = append(writes, write{space: name, key: keyOf(i), value: valueOf(w.rng)})
		}
	}
	if len(writes) == 0 {
		return nil
	}
	w.propose(func(s state) { s.apply(writes) })
	w.work.Ingests++
	entries := func(yield func(stoat.Entry, error) bool) {
		for _, e := range writes {
			if !yield(stoat.Entry{Key: []byte(e.key), Value: []byte(e.value)}, nil) {
				return
			}
		}
	}
	_, err := w.db.IngestEntries(context.Background(), entries, stoat.IngestOptions{Keyspace: w.spaces[name]})
	return w.settled(err)
}

// pass makes the keyspace "passing", or drops it.
func (w *writer) pass() error {
	if w.spaces[passing] == nil {
		return w.define(passing)
	}
	w.work.Drops++
	w.drops()
	w.propose(func(s state) { s.removeRange(passing+"/", passing+"0") })
	delete(w.spaces, passing)
	w.names = w.names[:len(w.names)-1]
	return w.settled(w.db.DropKeyspace(passing))
}

// restart closes the database and opens it again.
func (w *writer) restart() error {
	w.work.Restarts++
	w.tally()
	if err := w.db.Close(); err != nil {
		return err
	}
	w.keep(w.newest())
	return w.open()
}

// tally adds what the jobs of the database did.
func (w *writer) tally() { w.work.Flushes += int(w.db.Stats().Flushes) }

// kill ends the writer as signal 9 does: in the middle of a few more commits, without a
// word. What it has written stays.
func (w *writer) kill() error {
	w.work.Kills++
	w.tally()
	w.fault.Add(faultfs.Rule{Op: vfs.OpAny, Nth: 1 + w.rng.Int64N(60), Forever: true, Sync: vfs.SyncNotTried})
	for range 20 {
		if err := w.commit(testkit.RandomDurability(w.rng)); err != nil {
			break
		}
	}
	_ = w.db.Close() // the files are out of its reach
	if err := w.open(); err != nil {
		return fmt.Errorf("after a kill: %w", err)
	}
	return w.settled(nil)
}

// A life is a writer with its followers on a memory disk.
type life struct {
	*writer
	disk    *memfs.FS
	readers []*reader
}

// RunLife plays a life of so many steps. Its steps follow each other, and followers do
// theirs in between.
func RunLife(seed uint64, steps int) (Work, error) {
	rng := rand.New(rand.NewPCG(seed, 38))
	l := &life{disk: memfs.New()}
	var err error
	if l.writer, err = newWriter(rng, l.disk, testkit.Dir); err != nil {
		return Work{}, err
	}
	if err = l.loseSome(); err != nil {
		err = fmt.Errorf("the first power cut: %w", err)
	}
	for i := 0; i < steps && err == nil; i++ {
		if err = l.step(); err != nil {
			err = fmt.Errorf("step %d: %w", i, err)
		}
	}
	l.tally()
	for _, r := range l.readers {
		l.work.Reads += r.reads
		err = errors.Join(err, r.close())
	}
	return l.work, errors.Join(err, l.db.Close())
}

func (l *life) step() error {
	switch l.rng.IntN(40) {
	case 0:
		if l.rng.IntN(3) == 0 {
			return l.cut(testkit.RandomCut(l.rng))
		}
		return l.kill()
	case 1, 2:
		return l.join()
	case 3:
		if len(l.readers) == 0 {
			return nil
		}
		r := l.readers[0]
		l.readers = l.readers[1:]
		l.work.Reads += r.reads
		return r.close()
	case 4, 5, 6, 7, 8, 9:
		for _, r := range l.readers {
			if l.rng.IntN(2) == 0 {
				continue
			}
			if err := r.read(l.rng); err != nil {
				return fmt.Errorf("follower: %w", err)
			}
		}
		return nil
	}
	return l.writer.step()
}

// join opens a follower.
func (l *life) join() error {
	if len(l.readers) > 3 {
		return nil
	}
	r, err := l.follow(l.disk, l.dir, l.options, l.rng)
	if err != nil {
		return fmt.Errorf("open a follower: %w", err)
	}
	l.work.Opens++
	l.readers = append(l.readers, r)
	return r.read(l.rng)
}

// loseSome cuts the power after a few buffered commits, and keeps nothing that was not synced.
func (l *life) loseSome() error {
	if err := testkit.Times(5, func(int) error { return l.commit(stoat.Buffered) }); err != nil {
		return err
	}
	return l.cut(func(disk *memfs.FS) *memfs.FS { return disk.Crash(memfs.KeepNone, l.rng) })
}

// cut cuts the power of the machine. Followers end with the writer. left returns what is left of
// the disk.
func (l *life) cut(left func(disk *memfs.FS) *memfs.FS) error {
	if len(l.readers) > 0 && l.rng.IntN(2) == 0 {
		err := testkit.Times(1+l.rng.IntN(10), func(int) error { return l.commit(stoat.Buffered) })
		if err == nil {
			err = l.readers[0].sync()
		}
		if err != nil {
			return err
		}
	}
	after := left(l.disk)
	l.tally()
	err := l.db.Close()
	for _, r := range l.readers {
		l.work.Reads += r.reads
		err = errors.Join(err, r.close())
	}
	if err != nil {
		return err
	}
	l.readers, l.disk, l.fs = nil, after, after
	// A follower may be there before the writer.
	early, err := l.follow(after, l.dir, l.options, l.rng)
	if err != nil {
		return fmt.Errorf("follow what a power cut has left: %w", err)
	}
	l.readers = append(l.readers, early)
	if err := early.look(l.rng); err != nil {
		return fmt.Errorf("follow what a power cut has left: %w", err)
	}
	if err := l.open(); err != nil {
		return err
	}
	last, err := testkit.VersionOf(l.db)
	if err != nil {
		return err
	}
	l.work.Cuts++
	l.work.Taken += int(l.newest() - last)
	return l.forget(last)
}
