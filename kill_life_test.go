package stoat_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// writersMax is how many writers a life has at most.
const writersMax = 6

// A lifePlan is what a life does, as its seed and number say.
type lifePlan struct {
	seed, life uint64
	opts       stoat.Options
	writers    int
	tries      uint64 // transactions of each writer
	synced     int    // of ten commits, how many
}

func planLife(seed, life uint64) lifePlan {
	rng := rand.New(rand.NewPCG(seed, life))
	return lifePlan{
		seed: seed, life: life,
		opts: stoat.Options{MemtableSize: []int64{64 << 10, 64 << 10, 128 << 10, 1 << 20, 16 << 20}[rng.IntN(5)],
			Compression: testkit.Compressions[rng.IntN(len(testkit.Compressions))]},
		writers: 1 + rng.IntN(writersMax),
		tries:   10 + rng.Uint64N(150),
		synced:  []int{0, 1, 3, 10}[rng.IntN(4)],
	}
}

// News is something that a life tells the world outside.
type news struct {
	kind    newsKind
	id      workID
	version uint64
}

type newsKind byte

const (
	newsOpened   newsKind = 'O' // the database is open, at a version
	newsBuffered newsKind = 'B' // a transaction is committed
	newsSynced   newsKind = 'S' // a transaction is committed and durable
	newsSync     newsKind = 'Y' // everything up to a version is durable
	newsClosed   newsKind = 'C' // the database is closed: everything is
)

// hear notes news in the ledger.
func (l *ledger) hear(n news) error {
	switch n.kind {
	case newsOpened:
		if n.version != l.before.Last() {
			return fmt.Errorf("the database was opened at commit %d, it held %d", n.version, l.before.Last())
		}
	case newsBuffered:
		return l.committed(n.id, n.version, stoat.Buffered)
	case newsSynced:
		return l.committed(n.id, n.version, stoat.Synced)
	case newsSync:
		testkit.Raise(&l.durable, n.version)
	case newsClosed:
		testkit.Raise(&l.durable, l.known.Load())
	default:
		return fmt.Errorf("strange news %q", n.kind)
	}
	return nil
}

// live opens the database, lets the writers work and closes it. It ends
// earlier with the first error; the database is closed in any case.
func (p lifePlan) live(dir string, tell func(news)) error {
	db, err := stoat.Open(dir, &p.opts)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	tell(news{kind: newsOpened, version: db.Stats().Version})
	working := p.work(db, tell)
	err = db.Close()
	if err == nil {
		tell(news{kind: newsClosed})
	}
	return errors.Join(working, err)
}

// work lets the writers work beside a reader that looks at the whole.
func (p lifePlan) work(db *stoat.DB, tell func(news)) error {
	var known atomic.Uint64
	var working atomic.Int64
	working.Store(int64(p.writers))
	return testkit.Concurrently(p.writers+1, func(i int, rng *rand.Rand) error {
		if i == p.writers {
			for working.Load() > 0 {
				if err := lookOver(db, rng); err != nil {
					return err
				}
			}
			return nil
		}
		defer working.Add(-1)
		for n := range p.tries {
			id := workID{p.life, uint64(i), n + 1}
			if err := p.commit(db, id, rng, &known, tell); err != nil {
				return fmt.Errorf("transaction %v: %w", id, err)
			}
		}
		return nil
	}, p.seed<<20+p.life)
}

// commit does one transaction, and sometimes one that must never show before
// it, or a sync after it.
func (p lifePlan) commit(db *stoat.DB, id workID, rng *rand.Rand, known *atomic.Uint64, tell func(news)) error {
	if rng.IntN(12) == 0 {
		if err := abandon(db, rng); err != nil {
			return err
		}
	}
	told, d := newsBuffered, stoat.Buffered
	if rng.IntN(10) < p.synced {
		told, d = newsSynced, stoat.Synced
	}
	version, err := commitWrites(db, id.writes(p.seed), d)
	if err != nil {
		return err
	}
	testkit.Raise(known, version)
	tell(news{told, id, version})
	if rng.IntN(20) > 0 {
		return nil
	}
	upTo := known.Load()
	if err := db.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	tell(news{kind: newsSync, version: upTo})
	return nil
}

// commitWrites writes and commits one transaction.
func commitWrites(db *stoat.DB, writes []model.Write, d stoat.Durability) (version uint64, err error) {
	tx, err := db.Begin(stoat.ReadWrite)
	if err != nil {
		return 0, err
	}
	defer tx.Discard()
	if err := testkit.PutAll(tx, writes); err != nil {
		return 0, err
	}
	if err := tx.Commit(stoat.WithDurability(d)); err != nil {
		return 0, err
	}
	return tx.CommitVersion(), nil
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

// lookOver reads the database in one direction.
func lookOver(db *stoat.DB, rng *rand.Rand) error {
	return db.View(func(tx *stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{Reverse: rng.IntN(2) == 0})
		defer it.Close()
		for it.Next() {
			if string(it.Value()) == "lost" {
				return fmt.Errorf("key %q shows what was discarded", it.Key())
			}
		}
		return it.Err()
	})
}
