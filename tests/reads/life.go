package reads

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/sequence"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Work is what lives came to.
type Work struct {
	Streams, Batches, Estimates, Cuts, Numbers, PowerCuts, Taken int
}

// Add adds the work of another life.
func (w *Work) Add(o Work) {
	w.Streams += o.Streams
	w.Batches += o.Batches
	w.Estimates += o.Estimates
	w.Cuts += o.Cuts
	w.Numbers += o.Numbers
	w.PowerCuts += o.PowerCuts
	w.Taken += o.Taken
}

// A life is one database, and the model of it. The keys of the model begin with the name of
// their keyspace and a slash.
type life struct {
	rng    *rand.Rand
	opts   stoat.Options
	disk   *memfs.FS
	db     *stoat.DB
	spaces map[string]*stoat.Keyspace
	m      *model.Map
	// durable is the newest commit that no power cut may take.
	durable uint64

	// base is the newest commit at the last compaction of everything. deletions counts the
	// deletions since.
	base, deletions uint64

	numbers []*numbers
	given   map[uint64]bool

	work Work
}

// The keyspaces of a life: "" is the default one, and ids has only the sequence.
const (
	other = "other"
	ids   = "ids"
)

// RunLife plays a life of so many steps.
func RunLife(seed uint64, steps int) (Work, error) {
	rng := rand.New(rand.NewPCG(seed, 0x4ead5))
	l := &life{rng: rng, disk: memfs.New(), m: model.NewMap(), given: map[uint64]bool{}}
	l.opts = testkit.Merging(stoat.Options{Clock: testkit.NewClock(), Keys: testkit.KeysIf(rng.IntN(4) == 0),
		MemtableSize: []int64{testkit.SmallMemtable, 1 << 20}[rng.IntN(2)]})
	if rng.IntN(2) == 0 {
		l.opts.Compression = stoat.CompressionNone
	}
	err := l.open()
	if err == nil {
		err = l.loseSome()
	}
	for i := 0; i < steps && err == nil; i++ {
		if err = l.step(); err != nil {
			err = fmt.Errorf("step %d: %w", i, err)
		}
	}
	if l.db != nil {
		err = errors.Join(err, l.db.Close())
	}
	return l.work, err
}

// open opens the database. Sequences that another handle of it has leave the rest of their
// leases.
func (l *life) open() (err error) {
	o := l.opts
	o.FS = l.disk
	if l.db, err = stoat.Open(testkit.Dir, &o); err != nil {
		return err
	}
	l.spaces = map[string]*stoat.Keyspace{"": nil}
	for _, name := range []string{other, ids} {
		if l.spaces[name], err = l.db.Keyspace(name, nil); err != nil {
			return err
		}
	}
	l.numbers = nil
	for range 2 {
		l.numbers = append(l.numbers, l.newNumbers())
	}
	return nil
}

// step does something drawn.
func (l *life) step() error {
	switch l.rng.IntN(40) {
	case 0:
		return l.restart()
	case 1:
		return l.cut()
	case 2:
		return l.compact()
	case 3:
		return testkit.WaitForFlushes(l.db)
	case 4, 5, 6:
		return l.fill()
	case 7, 8, 9, 10, 11:
		return l.stream()
	case 12, 13:
		return l.streamVersions()
	case 14, 15:
		return l.streamDeletions()
	case 16, 17, 18, 19:
		return l.estimate()
	case 20, 21, 22, 23:
		return l.split()
	case 24, 25, 26, 27:
		return l.number()
	case 28, 29, 30:
		return l.closeNumbers()
	}
	return l.writes()
}

func (l *life) restart() error {
	if err := l.db.Close(); err != nil {
		return err
	}
	l.durable = l.m.Last()
	return l.open()
}

func (l *life) compact() error {
	l.base, l.deletions = l.m.Last(), 0
	return l.db.Compact(context.Background(), stoat.CompactOptions{})
}

// loseSome cuts the power after a few buffered commits, and keeps nothing that was not synced.
func (l *life) loseSome() error {
	err := testkit.Times(5, func(int) error {
		return l.commitAs(stoat.Buffered, l.write)
	})
	if err != nil {
		return err
	}
	return l.reopen(l.disk.Crash(memfs.KeepNone, l.rng))
}

// cut cuts the power, perhaps just after a lease of a sequence, and opens what is left.
func (l *life) cut() error {
	for range l.rng.IntN(3) {
		if err := l.number(); err != nil {
			return err
		}
	}
	return l.reopen(testkit.RandomCut(l.rng)(l.disk))
}

// reopen opens what a power cut has left.
func (l *life) reopen(after *memfs.FS) error {
	if err := l.db.Close(); err != nil {
		return err
	}
	l.disk = after
	if err := l.open(); err != nil {
		return err
	}
	last, err := testkit.VersionOf(l.db)
	if err != nil {
		return err
	}
	if last < l.durable || last > l.m.Last() {
		return fmt.Errorf("a power cut left version %d, of %d; version %d was durable", last, l.m.Last(), l.durable)
	}
	l.work.PowerCuts++
	l.work.Taken += int(l.m.Last() - last)
	l.m.Truncate(last)
	l.durable, l.base = last, min(l.base, last)
	return nil
}

const (
	// keysMax is the number of keys of a keyspace, without those that need an escape.
	keysMax = 6000
	// The keys from hot on are drawn often.
	hot, hotKeys = 3000, 20
)

// key draws a key. Some need an escape, and some are drawn often.
func (l *life) key() string {
	switch l.rng.IntN(16) {
	case 0:
		return fmt.Sprintf("\xff%02d", l.rng.IntN(30))
	case 1, 2, 3:
		return keyOf(hot + l.rng.IntN(hotKeys))
	}
	return keyOf(l.rng.IntN(keysMax))
}

func keyOf(i int) string { return fmt.Sprintf("%04d", i) }

// space draws a keyspace.
func (l *life) space() string { return []string{"", other}[l.rng.IntN(2)] }

// A pair is a transaction of the database, and the same of the model.
type pair struct {
	l  *life
	tx stoat.Txn
	m  *model.Txn
}

// commit commits what do writes.
func (l *life) commit(do func(p *pair) error) error {
	return l.commitAs(testkit.RandomDurability(l.rng), do)
}

func (l *life) commitAs(durability stoat.Durability, do func(p *pair) error) error {
	tx, err := l.db.Begin(stoat.ReadWrite)
	if err != nil {
		return err
	}
	defer tx.Discard()
	p := &pair{l, tx, l.m.Begin(l.m.Last(), true)}
	p.m.NowMs = testkit.ClockStart
	if err := do(p); err != nil {
		return err
	}
	if err := tx.Commit(stoat.WithDurability(durability)); err != nil {
		return err
	}
	version, _ := p.m.Commit()
	if version != tx.CommitVersion() {
		return fmt.Errorf("a commit has version %d, want %d", tx.CommitVersion(), version)
	}
	if durability == stoat.Synced {
		l.durable = max(l.durable, version)
	}
	return nil
}

// put writes a key of a keyspace.
func (p *pair) put(space string, w model.Write) error {
	key := space + "/" + w.Key
	switch {
	case w.Steps != nil:
		for _, s := range *w.Steps {
			p.m.Step(key, s)
		}
	case w.Deleted:
		p.l.deletions++
		p.m.Write(key, w.Version)
	default:
		p.m.Write(key, w.Version)
	}
	return testkit.Put(p.tx.In(p.l.spaces[space]), w)
}

// deleteRange deletes the keys from lo to hi. An empty hi is no bound.
func (p *pair) deleteRange(space, lo, hi string) error {
	p.l.deletions++
	tx := p.tx.In(p.l.spaces[space])
	if hi == "" {
		p.m.DeleteRange(space+"/"+lo, space+"0", true) // after the slash
		return tx.DeleteRange([]byte(lo), nil)
	}
	p.m.DeleteRange(space+"/"+lo, space+"/"+hi, true)
	return tx.DeleteRange([]byte(lo), []byte(hi))
}

// fill commits keys in a row: many with short values, or fewer with long ones.
func (l *life) fill() error {
	n, size := 500+l.rng.IntN(1500), 10
	if l.rng.IntN(2) == 0 {
		n, size = 100+l.rng.IntN(300), 4000
	}
	space, from := l.space(), l.rng.IntN(keysMax-n)
	return l.commit(func(p *pair) error {
		return testkit.Times(n, func(i int) error {
			return p.put(space, model.Write{Key: keyOf(from + i), Version: model.Version{Value: testkit.RandomValue(l.rng, size)}})
		})
	})
}

// writes commits a few writes.
func (l *life) writes() error {
	return l.commit(func(p *pair) error {
		for l.rng.IntN(8) == 0 {
			lo, hi := l.rng.IntN(keysMax), ""
			if l.rng.IntN(12) > 0 {
				hi = keyOf(lo + 1 + l.rng.IntN(200))
			} else {
				lo = keysMax - 1 - l.rng.IntN(200)
			}
			if err := p.deleteRange(l.space(), keyOf(lo), hi); err != nil {
				return err
			}
		}
		return testkit.Times(1+l.rng.IntN(20), func(int) error { return l.write(p) })
	})
}

func (l *life) write(p *pair) error {
	space, w := l.space(), model.Write{Key: l.key()}
	switch l.rng.IntN(8) {
	case 0, 1:
		w.Deleted = true
	case 2:
		if space == "" {
			return p.put(space, testkit.StepKey(w.Key, testkit.Merge(testkit.RandomValue(l.rng, 20))))
		}
		w.Value, w.ExpiresAt = testkit.RandomValue(l.rng, 20), testkit.Past
	case 3:
		w.Value, w.ExpiresAt, w.User = testkit.RandomValue(l.rng, 600), testkit.Future, byte(l.rng.IntN(4))
	default:
		w.Value = testkit.RandomValue(l.rng, 200)
	}
	return p.put(space, w)
}

// A numbers is a handle of the sequence, and what it should give out. All handles have one
// key.
type numbers struct {
	s                *sequence.Sequence
	next, end, lease uint64
}

// sequenceKey is the key of the sequence in its keyspace.
const sequenceKey = "next"

func (l *life) newNumbers() *numbers {
	lease := 1 + l.rng.Uint64N(5)
	return &numbers{sequence.New(l.db, []byte(sequenceKey), sequence.Options{Lease: lease, Keyspace: l.spaces[ids]}), 0, 0, lease}
}
