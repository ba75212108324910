package kill

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// writersMax is how many writers a life has at most.
const writersMax = 6

// A LifePlan is what a life does, as its seed and number say.
type LifePlan struct {
	Seed, life uint64
	Opts       stoat.Options
	Writers    int
	Tries      uint64 // transactions of each writer
	synced     int    // of ten commits, how many
	below      uint64 // the discard point that the life sets
	Drops      bool   // writers have keyspaces of their own, and drop them
}

// Encrypted says whether the database of a seed is encrypted. Successive seeds play
// different kinds of disks, in turns of three or four; each kind has encrypted databases.
func Encrypted(seed uint64) bool { return (seed+seed/3)%3 == 1 }

// PlanLife draws the plan of a life.
func PlanLife(seed, life uint64) LifePlan {
	rng := rand.New(rand.NewPCG(seed, life))
	p := LifePlan{
		Seed: seed, life: life,
		Opts: stoat.Options{MemtableSize: []int64{64 << 10, 64 << 10, 128 << 10, 1 << 20, 16 << 20}[rng.IntN(5)],
			Compression: testkit.Compressions[rng.IntN(len(testkit.Compressions))],
			Keys:        testkit.KeysIf(Encrypted(seed)), DataKeyAge: time.Second},
		Writers: 1 + rng.IntN(writersMax),
		Tries:   10 + rng.Uint64N(150),
		synced:  []int{0, 1, 3, 10}[rng.IntN(4)],
	}
	merging := []func(stoat.Options) stoat.Options{testkit.Merging, testkit.Combining}
	p.Opts = merging[rng.IntN(2)](p.Opts)
	p.below = life / 2 * 2 * timesPerLife // no timestamp of this or a later life is less
	return p
}

// News is something that a life tells the world outside.
type News struct {
	kind    newsKind
	id      WorkID
	version uint64
}

type newsKind byte

const (
	newsOpened   newsKind = 'O' // the database is open, at a version
	newsDropping newsKind = 'd' // a writer drops its keyspace before a transaction
	newsDropped  newsKind = 'D' // it has dropped it
	newsBuffered newsKind = 'B' // a transaction is committed
	newsSynced   newsKind = 'S' // a transaction is committed and durable
	newsSync     newsKind = 'Y' // everything up to a version is durable
	newsClosed   newsKind = 'C' // the database is closed: everything is
)

// Hear notes news in the ledger.
func (l *Ledger) Hear(n News) error {
	switch n.kind {
	case newsOpened:
		if n.version != l.before.Last() && (l.before.drops == 0 || n.version < l.before.Last()) {
			return fmt.Errorf("the database was opened at commit %d, it held %d", n.version, l.before.Last())
		}
	case newsDropping, newsDropped:
		l.dropOf(n.id, n.kind == newsDropped)
	case newsBuffered:
		return l.Committed(n.id, n.version, stoat.Buffered)
	case newsSynced:
		return l.Committed(n.id, n.version, stoat.Synced)
	case newsSync:
		testkit.Raise(&l.Durable, n.version)
	case newsClosed:
		testkit.Raise(&l.Durable, l.Known.Load())
	default:
		return fmt.Errorf("strange news %q", n.kind)
	}
	return nil
}

// Live opens the database, lets the writers work and closes it. It ends
// earlier with the first error; the database is closed in any case.
func (p LifePlan) Live(dir string, tell func(News)) error {
	db, err := stoat.Open(dir, &p.Opts)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	tell(News{kind: newsOpened, version: db.Stats().Version})
	ks, working := spacesOf(db)
	if working == nil {
		working = ks.stamped.DiscardBelow(p.below)
	}
	if working == nil {
		working = p.work(db, tell)
	}
	err = db.Close()
	if err == nil {
		tell(News{kind: newsClosed})
	}
	return errors.Join(working, err)
}

// work lets the writers work beside a reader that looks at the whole.
func (p LifePlan) work(db *stoat.DB, tell func(News)) error {
	var known atomic.Uint64
	var working atomic.Int64
	working.Store(int64(p.Writers))
	return testkit.Concurrently(p.Writers+1, func(i int, rng *rand.Rand) error {
		if i == p.Writers {
			for working.Load() > 0 {
				if err := LookOver(db, rng); err != nil {
					return err
				}
			}
			return nil
		}
		defer working.Add(-1)
		for n := range p.Tries {
			id := WorkID{Life: p.life, Writer: uint64(i), N: n + 1}
			if err := p.commit(db, id, rng, &known, tell); err != nil {
				return fmt.Errorf("transaction %v: %w", id, err)
			}
		}
		return nil
	}, p.Seed<<20+p.life)
}

// commit does one transaction, and sometimes one that must never show before
// it, or a sync after it.
func (p LifePlan) commit(db *stoat.DB, id WorkID, rng *rand.Rand, known *atomic.Uint64, tell func(News)) error {
	if rng.IntN(12) == 0 {
		if err := abandon(db, rng); err != nil {
			return err
		}
	}
	told, d := newsBuffered, stoat.Buffered
	if rng.IntN(10) < p.synced {
		told, d = newsSynced, stoat.Synced
	}
	w := id.plan(p.Seed, p.Drops)
	if w.drops {
		tell(News{kind: newsDropping, id: id})
		if err := dropOwn(db, id.Writer); err != nil {
			return err
		}
		tell(News{kind: newsDropped, id: id})
	}
	if w.ingest { // it is always durable
		told = newsSynced
	}
	version, err := CommitWrites(db, w, d)
	if err != nil {
		return err
	}
	testkit.Raise(known, version)
	tell(News{told, id, version})
	if rng.IntN(20) > 0 {
		return nil
	}
	upTo := known.Load()
	if err := db.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	tell(News{kind: newsSync, version: upTo})
	return nil
}

// abandon writes something and discards it.
func abandon(db *stoat.DB, rng *rand.Rand) error {
	tx, err := db.Begin(stoat.ReadWrite)
	if err != nil {
		return err
	}
	defer tx.Discard()
	return testkit.Put(tx, testkit.SetKey(rng.IntN(keySpan), "lost"))
}

// LookOver reads the database in one direction.
func LookOver(db *stoat.DB, rng *rand.Rand) error {
	return db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{Reverse: rng.IntN(2) == 0})
		defer it.Close()
		for it.Next() {
			if string(it.Value()) == "lost" {
				return fmt.Errorf("key %q shows what was discarded", it.Key())
			}
		}
		ks, err := spacesOf(db)
		if err != nil {
			return errors.Join(it.Err(), err)
		}
		return errors.Join(it.Err(), checkMirror(db, tx), checkStamped(tx.In(ks.stamped)))
	})
}
