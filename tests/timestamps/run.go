package timestamps

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A run is one life of a database.
type run struct {
	rng   *rand.Rand
	fs    *memfs.FS
	clock *testkit.Clock
	opts  stoat.Options
	db    *stoat.DB

	names  []string
	spaces []*stoat.Keyspace
	models []modelSpace
	floors []uint64
	keys   []string
	values int
	// wrote has what the last write wrote to each keyspace, and purged whether it purged
	// keys.
	wrote  [2]modelSpace
	purged bool
	// aim is a timestamp that time often returns, or 0.
	aim uint64
	// through, if it is set, is the way to fs. Its calls may fail.
	through vfs.FS
	// doubt is what a commit that fails may have written all the same, or nil.
	doubt []modelSpace
	// held is an old snapshot beside the model of its time.
	held       stoat.Txn
	heldModels []modelSpace
	work       work
}

// work counts what a run came to.
type work struct{ ingests, reads, found, late, conflicts, discards, refused, restarts, cuts, compactions, dropped int }

func (w *work) add(o work) {
	w.reads, w.found, w.late, w.conflicts = w.reads+o.reads, w.found+o.found, w.late+o.late, w.conflicts+o.conflicts
	w.discards, w.refused, w.dropped = w.discards+o.discards, w.refused+o.refused, w.dropped+o.dropped
	w.ingests += o.ingests
	w.restarts, w.cuts, w.compactions = w.restarts+o.restarts, w.cuts+o.cuts, w.compactions+o.compactions
}

// timesMax is above all timestamps but a few.
const timesMax = 60

// RunLife plays the life of one seed.
func RunLife(seed uint64, ops int) (w work, err error) {
	r := newRun(seed)
	err = testkit.CatchPanic(func() error { return r.live(ops) })
	if err != nil {
		err = fmt.Errorf("seed %d: %w", seed, err)
	}
	if r.db != nil {
		r.held.Discard()
		if e := r.db.Close(); err == nil && e != nil {
			err = fmt.Errorf("seed %d: close: %w", seed, e)
		}
	}
	return r.work, err
}

func newRun(seed uint64) *run {
	rng := rand.New(rand.NewPCG(seed, 0x7137))
	r := &run{rng: rng, fs: memfs.New(), clock: testkit.NewClock(), names: []string{"one, " + testkit.Sentinel, "two"}}
	r.opts = stoat.Options{FS: r.fs, Clock: r.clock, MemtableSize: []int64{64 << 10, 256 << 10}[rng.IntN(2)],
		NumVersions: 1 + 2*rng.IntN(2), Durability: stoat.Synced, Keys: testkit.KeysIf(seed%3 == 1), DataKeyAge: time.Minute}
	alphabet := []string{"a", "b", "\x00", "\x01", "\xff"}
	for range 6 + rng.IntN(30) {
		var key strings.Builder
		for range 1 + rng.IntN(4) {
			key.WriteString(alphabet[rng.IntN(len(alphabet))])
		}
		r.keys = append(r.keys, key.String())
	}
	for range r.names {
		r.models, r.floors = append(r.models, modelSpace{}), append(r.floors, 0)
	}
	return r
}

func (r *run) open() (err error) {
	if r.opts.FS = r.fs; r.through != nil {
		r.opts.FS = r.through
	}
	if r.db, err = stoat.Open(testkit.Dir, &r.opts); err != nil {
		return err
	}
	r.spaces = nil
	for i, name := range r.names {
		o := &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked}
		if i == 1 {
			o.Timestamps = stoat.TimestampsUnchecked
		}
		ks, err := r.db.Keyspace(name, o)
		if err != nil {
			return err
		}
		if got := ks.DiscardedBelow(); got != r.floors[i] {
			return fmt.Errorf("the discard point of %s is %d, want %d", name, got, r.floors[i])
		}
		r.spaces = append(r.spaces, ks)
	}
	return nil
}

func (r *run) live(ops int) error {
	if err := r.open(); err != nil {
		return err
	}
	for i := range ops {
		name, do := r.draw()
		if err := do(); err != nil {
			return fmt.Errorf("operation %d, %s: %w", i, name, err)
		}
	}
	for _, do := range []func() error{r.verify, r.compact, r.verify, r.restart, r.verify} {
		if err := do(); err != nil {
			return fmt.Errorf("at the end: %w", err)
		}
	}
	return nil
}

func (r *run) draw() (string, func() error) {
	switch n := r.rng.IntN(100); {
	case n < 30:
		return "write", r.write
	case n < 43:
		return "conflict", r.conflict
	case n < 45:
		return "late commit", r.late
	case n < 75:
		return "read", r.read
	case n < 78:
		return "fill", r.fill
	case n < 81:
		return "discard", r.discard
	case n < 84:
		return "compact", r.compact
	case n < 86:
		return "flush", func() error { return testkit.WaitForFlushes(r.db) }
	case n < 88:
		return "restart", r.restart
	case n < 90:
		return "power cut", r.cut
	case n < 94:
		return "hold", r.hold
	case n < 97:
		return "verify", r.verify
	}
	return "time", func() error { r.clock.Ms.Add(int64(r.rng.IntN(30_000))); return nil }
}

func (r *run) key() string { return r.keys[r.rng.IntN(len(r.keys))] }

// time returns a timestamp from least on.
func (r *run) time(least uint64) uint64 {
	if r.aim > least && r.rng.IntN(2) == 0 {
		return r.aim
	}
	if r.rng.IntN(20) == 0 {
		return []uint64{math.MaxUint64, math.MaxUint64 - 1, 1 << 63}[r.rng.IntN(3)]
	}
	return least + r.rng.Uint64N(timesMax)
}

// write commits a transaction with versions in any order, and reads them before.
func (r *run) write() error { return r.writeSome(1 + r.rng.IntN(12)) }

func (r *run) writeSome(n int) error {
	next := []modelSpace{r.models[0].clone(), r.models[1].clone()}
	r.doubt = nil
	r.purged, r.wrote = false, [2]modelSpace{{}, {}}
	if r.rng.IntN(8) == 0 {
		return r.ingest(next, n)
	}
	tx, err := r.db.Begin(stoat.ReadWrite)
	if err != nil {
		return err
	}
	defer tx.Discard()
	for range n {
		i := r.rng.IntN(len(r.spaces))
		if err := r.writeOne(tx, i, next[i]); err != nil {
			return err
		}
		if r.rng.IntN(8) == 0 {
			if err := r.compare(tx, i, next[i]); err != nil {
				return fmt.Errorf("own writes: %w", err)
			}
		}
	}
	if r.rng.IntN(10) == 0 {
		return nil
	}
	r.doubt = next
	if err := tx.Commit(); err != nil {
		return err
	}
	r.models, r.doubt = next, nil
	return nil
}

func (r *run) writeOne(tx stoat.Txn, i int, m modelSpace) error {
	if r.floors[i] > 0 && r.rng.IntN(20) == 0 {
		r.work.refused++
		err := tx.In(r.spaces[i]).At(r.floors[i]-1).Set([]byte(r.key()), nil)
		if !errors.Is(err, stoat.ErrTimestampDiscarded) {
			return fmt.Errorf("a write below the discard point returns %w", err)
		}
		return nil
	}
	v := version{key: r.key(), at: r.time(r.floors[i])}
	if all := m[v.key]; len(all) > 0 && all[0].at > v.at {
		r.work.late++
	}
	at := tx.In(r.spaces[i]).At(v.at)
	switch n := r.rng.IntN(40); {
	case n == 0:
		lo, hi := r.key(), r.key()
		m.purge(lo, hi)
		r.purged = true
		if lo >= hi {
			return at.PurgeRange([]byte(hi), []byte(hi))
		}
		return at.PurgeRange([]byte(lo), []byte(hi))
	case n < 10:
		v.deleted = true
		m.put(v)
		r.wrote[i].put(v)
		return at.Delete([]byte(v.key))
	}
	opts := r.draft(&v)
	m.put(v)
	r.wrote[i].put(v)
	if r.rng.IntN(10) == 0 {
		return at.SetReader([]byte(v.key), strings.NewReader(v.value), opts...)
	}
	return at.Set([]byte(v.key), []byte(v.value), opts...)
}

// draft gives a version its value, and returns the options to set it with.
func (r *run) draft(v *version) []stoat.SetOption {
	r.values++
	v.value = fmt.Sprint(r.values, testkit.Filled([]int{0, 10, 100, 2000}[r.rng.IntN(4)]))
	v.user = byte(r.rng.IntN(3))
	opts := []stoat.SetOption{stoat.UserMeta(v.user)}
	if r.rng.IntN(5) == 0 {
		ttl := r.rng.Uint64N(40_000)
		v.expires = r.clock.Seen() + ttl
		opts = append(opts, stoat.ExpiresAt(time.UnixMilli(int64(v.expires))))
	}
	return opts
}

// ingest commits n versions of one keyspace by an ingest or a bulk load. next are the
// models after it.
func (r *run) ingest(next []modelSpace, n int) error {
	r.work.ingests++
	i := r.rng.IntN(len(r.spaces))
	o := stoat.IngestOptions{Keyspace: r.spaces[i], Timestamp: r.time(r.floors[i]), Memory: 1 + r.rng.Int64N(4000)}
	load, given := r.db.BulkLoad, []stoat.Entry{}
	for range n {
		v := version{key: r.key(), at: r.time(r.floors[i])}
		opts := r.draft(&v)
		e := stoat.Entry{Key: []byte(v.key), Value: []byte(v.value), Timestamp: v.at, Options: opts}
		if v.at == 0 || r.rng.IntN(3) == 0 {
			v.at, e.Timestamp = o.Timestamp, 0
		}
		next[i].put(v)
		r.wrote[i].put(v)
		given = append(given, e)
	}
	if r.rng.IntN(2) == 0 {
		load = r.db.IngestEntries
		slices.Reverse(given) // of equal ones, the last counts
		slices.SortStableFunc(given, func(a, b stoat.Entry) int {
			return cmp.Or(bytes.Compare(a.Key, b.Key), cmp.Compare(cmp.Or(b.Timestamp, o.Timestamp), cmp.Or(a.Timestamp, o.Timestamp)))
		})
		given = slices.CompactFunc(given, func(a, b stoat.Entry) bool {
			return bytes.Equal(a.Key, b.Key) && cmp.Or(a.Timestamp, o.Timestamp) == cmp.Or(b.Timestamp, o.Timestamp)
		})
	}
	r.doubt = next
	entries := func(yield func(stoat.Entry, error) bool) {
		for _, e := range given {
			if !yield(e, nil) {
				return
			}
		}
	}
	if _, err := load(context(), entries, o); err != nil {
		return err
	}
	r.models, r.doubt = next, nil
	return nil
}

// fill writes to a keyspace without timestamps, so that memtables become full.
func (r *run) fill() error {
	return r.db.Update(func(tx stoat.Txn) error {
		for range 20 {
			if err := tx.Set(testkit.Key(r.rng.IntN(1000)), make([]byte, 1000)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *run) read() error {
	return r.db.View(func(tx stoat.Txn) error {
		i := r.rng.IntN(len(r.spaces))
		return r.compare(tx, i, r.models[i])
	})
}

func (r *run) discard() error {
	i := r.rng.IntN(len(r.spaces))
	return r.discardTo(i, r.floors[i]+r.rng.Uint64N(timesMax/4))
}

func (r *run) discardTo(i int, at uint64) error {
	r.floors[i] = at
	r.work.discards++
	if err := r.spaces[i].DiscardBelow(r.floors[i]); err != nil {
		return err
	}
	if got := r.spaces[i].DiscardedBelow(); got != r.floors[i] {
		return fmt.Errorf("the discard point is %d, want %d", got, r.floors[i])
	}
	if r.floors[i] == 0 {
		return nil
	}
	return r.db.View(func(tx stoat.Txn) error {
		_, err := tx.In(r.spaces[i]).At(r.floors[i] - 1).Get([]byte(r.key()))
		if !errors.Is(err, stoat.ErrTimestampDiscarded) {
			return fmt.Errorf("a read below the discard point returns %w", err)
		}
		return nil
	})
}

func (r *run) compact() error {
	r.work.compactions++
	if err := r.fill(); err != nil {
		return err
	}
	err := r.db.Compact(context(), stoat.CompactOptions{})
	if err != nil || r.rng.IntN(2) == 0 {
		return err
	}
	return r.db.Compact(context(), stoat.CompactOptions{Keyspace: r.spaces[0], Lower: []byte("a")})
}

func (r *run) restart() error {
	r.release()
	r.work.restarts++
	if err := r.db.Close(); err != nil {
		return err
	}
	return r.reopen()
}

// reopen opens what is on the disk, after a search for plain text.
func (r *run) reopen() error {
	if r.opts.Keys != nil {
		if err := testkit.NoSentinel(r.fs, testkit.Dir); err != nil {
			return err
		}
	}
	return r.open()
}

// cut cuts the power. All commits are durable.
func (r *run) cut() error {
	r.release()
	r.work.cuts++
	disk := testkit.RandomCut(r.rng)(r.fs)
	if err := r.db.Close(); err != nil {
		return err
	}
	r.fs = disk
	return r.reopen()
}

// hold compares the old snapshot, and takes a new one.
func (r *run) hold() error {
	if r.heldModels != nil {
		for i := range r.spaces {
			if err := r.compare(r.held, i, r.heldModels[i]); err != nil {
				return err
			}
		}
	}
	r.release()
	var err error
	r.held, err = r.db.Begin(stoat.ReadOnly)
	r.heldModels = []modelSpace{r.models[0].clone(), r.models[1].clone()}
	return err
}

func (r *run) release() {
	r.held.Discard()
	r.held, r.heldModels = stoat.Txn{}, nil
}

// verify compares all keys at many timestamps, and checks the files.
func (r *run) verify() error {
	err := r.db.View(func(tx stoat.Txn) error {
		for i := range r.spaces {
			for range 4 {
				if err := r.compare(tx, i, r.models[i]); err != nil {
					return err
				}
			}
			for _, key := range r.keys {
				if err := r.compareKey(tx, i, r.models[i], key, r.time(r.floors[i])); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = r.db.Check(context(), stoat.CheckOptions{})
	return err
}
