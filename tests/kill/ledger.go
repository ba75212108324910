package kill

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// What the harnesses on real files share. A life is one opening of a database
// in which writers commit until something ends it: a kill, a power cut, a
// full disk. The ledger knows what was acknowledged before that, and settles
// which of the commits that got no answer have happened.

// A WorkID names one transaction of a life. Its writes follow from the name,
// so that a process only has to tell the name of what it has committed.
type WorkID struct {
	Life, Writer, N uint64
}

// markerKey is the key to which a writer writes, in every transaction, which
// one it is. By it the ledger recognizes a commit that got no answer.
func markerKey(writer uint64) string { return fmt.Sprintf("writer/%02d", writer) }

// String is the name as the marker of a writer holds it.
func (id WorkID) String() string { return fmt.Sprintf("%d/%d/%d", id.Life, id.Writer, id.N) }

// workOf is the inverse of WorkID.String, on the value of a marker.
func workOf(marker string) (id WorkID, err error) {
	if _, err := fmt.Sscanf(marker, "%d/%d/%d", &id.Life, &id.Writer, &id.N); err != nil {
		return id, fmt.Errorf("marker %q: %w", marker, err)
	}
	return id, nil
}

// A Ledger holds what the world outside a life was told.
type Ledger struct {
	Seed, Life uint64
	before     *State // the state in which the life began
	// Fresh is the size of a value that every transaction gives to a key of
	// its own, so that the database grows; 0 for none.
	Fresh int
	// Drops says that writers have keyspaces of their own, and drop them.
	Drops bool

	mu      sync.Mutex
	Commits map[uint64]WorkID // by version
	newest  map[uint64]uint64 // by writer: its last transaction that was acknowledged
	// A writer may drop its keyspace before a transaction. By writer, dropping is the last
	// transaction for which that began, and dropped is the last for which it ended.
	dropping, dropped map[uint64]uint64
	drops             int  // drops that began
	cut               bool // a power cut has begun; see Cut

	// Known and Durable are the newest commits that were acknowledged, at all
	// and as durable.
	Known, Durable atomic.Uint64
}

// NewLedger returns the ledger of a life on a database whose state is before.
func NewLedger(seed, life uint64, before *State) *Ledger {
	l := &Ledger{Seed: seed, Life: life, before: before}
	l.Commits, l.newest = make(map[uint64]WorkID), make(map[uint64]uint64)
	l.dropping, l.dropped = make(map[uint64]uint64), make(map[uint64]uint64)
	// The opening of this life has seen the state before it.
	l.Known.Store(before.Last())
	l.Durable.Store(before.Last())
	return l
}

// Writes makes what a transaction writes.
func (l *Ledger) Writes(id WorkID) Writes {
	w := id.plan(l.Seed, l.Drops)
	if l.Fresh > 0 {
		key := fmt.Sprintf("fresh/%v", id)
		w.home = append(w.home, model.Write{Key: key, Version: model.Version{Value: id.noise(l.Seed, l.Fresh)}})
	}
	return w
}

// dropOf notes that a drop before a transaction begins, or has ended.
func (l *Ledger) dropOf(id WorkID, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !ended:
		l.dropping[id.Writer] = id.N
		l.drops++
	case !l.cut:
		l.dropped[id.Writer] = id.N
	}
}

// Cut notes that a power cut begins. A drop that is acknowledged later proves nothing.
func (l *Ledger) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
}

// noise returns n bytes that follow from the name of a transaction and that no
// compression makes fewer.
func (id WorkID) noise(seed uint64, n int) string {
	rng := rand.New(rand.NewPCG(seed<<20+id.Life, ^(id.Writer<<32 + id.N)))
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, rng.Uint64())
	}
	return string(b[:n])
}

// Committed notes that a transaction was acknowledged with a version.
func (l *Ledger) Committed(id WorkID, version uint64, d stoat.Durability) error {
	l.mu.Lock()
	other, taken := l.Commits[version]
	l.Commits[version] = id
	l.newest[id.Writer] = max(l.newest[id.Writer], id.N)
	l.mu.Unlock()
	if taken || version <= l.before.Last() {
		return fmt.Errorf("transaction %v was acknowledged as commit %d, which was there before (%v)", id, version, other)
	}
	testkit.Raise(&l.Known, version)
	if d == stoat.Synced {
		testkit.Raise(&l.Durable, version)
	}
	return nil
}

// settle returns the state that tx reads. Every commit up to there was acknowledged, or is
// the one at the end of a writer's work that got no answer. None at or before floor is
// missing.
func (l *Ledger) settle(db *stoat.DB, tx stoat.Txn, floor uint64) (*State, error) {
	version := tx.ReadVersion()
	if version < floor {
		return nil, fmt.Errorf("recovered commit %d, but %d was acknowledged as safe", version, floor)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.recognize(tx); err != nil {
		return nil, err
	}
	s := l.before.clone()
	s.drops += l.drops
	var found [writersMax]uint64 // the last transaction of each writer
	for seq := s.Last() + 1; seq <= version; seq++ {
		id, ok := l.Commits[seq]
		if !ok {
			if err := s.silentTo(seq); err != nil {
				return nil, err
			}
			continue
		}
		s.commit(l.Writes(id))
		found[id.Writer] = id.N
		s.below = PlanLife(l.Seed, l.Life).below // was set before
	}
	if s.Last() != version {
		return nil, fmt.Errorf("recovered commit %d, but the life began at %d", version, s.Last())
	}
	return s, errors.Join(l.settleDrops(db, tx, s, found), l.settlePoint(db, s))
}

// Compare settles the state that tx reads, and compares tx with it.
func (l *Ledger) Compare(db *stoat.DB, tx stoat.Txn, floor uint64) error {
	s, err := l.settle(db, tx, floor)
	if err != nil {
		return err
	}
	return s.compare(db, tx)
}

// settleDrops decides which drops without an answer have happened. A drop before a
// transaction that is found has happened.
func (l *Ledger) settleDrops(db *stoat.DB, tx stoat.Txn, s *State, found [writersMax]uint64) error {
	for writer, last := range found {
		writer := uint64(writer)
		switch {
		case l.dropped[writer] > last:
			s.own[writer] = nil
		case l.dropping[writer] > last:
			got, err := readOwn(db, tx, writer)
			if err != nil {
				return err
			}
			if len(got) == 0 {
				s.own[writer] = nil
			}
		}
	}
	return nil
}

// settlePoint decides whether the discard point of the life is set. It is, if a
// transaction of the life is found.
func (l *Ledger) settlePoint(db *stoat.DB, s *State) error {
	ks, err := spacesOf(db)
	if err == nil && ks.stamped.DiscardedBelow() == PlanLife(l.Seed, l.Life).below {
		s.below = PlanLife(l.Seed, l.Life).below
	}
	return err
}

// recognize adds the commits that got no answer. A writer has at most one of these, and the
// value of its marker names the last that it did.
func (l *Ledger) recognize(tx stoat.Txn) error {
	for writer := range uint64(writersMax) {
		item, err := tx.GetItem([]byte(markerKey(writer)))
		if errors.Is(err, stoat.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		marker, err := item.Value()
		if err != nil {
			return err
		}
		id, err := workOf(string(marker))
		if err != nil {
			return err
		}
		if _, known := l.Commits[item.Version()]; known || id.Life != l.Life || id.N <= l.newest[writer] {
			continue // the comparison tells whether it should be so
		}
		l.Commits[item.Version()] = id
	}
	return nil
}
