package kill

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
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

// keySpan is the number of keys that all writers share.
const keySpan = 300

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

// ingests reports whether the transaction is an ingest where a harness can do one.
func (id WorkID) ingests() bool { return id.N%16 == 5 }

// writes makes what the transaction writes.
func (id WorkID) writes(seed uint64) []model.Write {
	rng := rand.New(rand.NewPCG(seed<<20+id.Life, id.Writer<<32+id.N))
	writes := []model.Write{{Key: markerKey(id.Writer), Version: model.Version{Value: id.String()}}}
	switch rng.IntN(40) {
	case 0: // larger than the smallest memtable
		for range 4 {
			writes = append(writes, testkit.SetKey(rng.IntN(keySpan), testkit.RandomValue(rng, 1)+strings.Repeat("L", 20<<10)))
		}
	case 1, 2:
		writes = append(writes, testkit.RandomBatch(rng, 40, 200)...)
	case 3, 4:
		writes = append(writes, testkit.SetKey(rng.IntN(keySpan), testkit.RandomValue(rng, 30<<10)))
	default:
		for range rng.IntN(6) {
			writes = append(writes, testkit.SetKey(rng.IntN(keySpan), testkit.RandomValue(rng, 120)))
		}
	}
	for i := range writes[1:] {
		vary(&writes[1+i].Version, rng)
	}
	if id.ingests() {
		return testkit.Ingestible(writes)
	}
	return writes
}

// vary makes some versions deletions, some of limited life, some marked. The
// limits are far from the time of any run.
func vary(v *model.Version, rng *rand.Rand) {
	switch rng.IntN(12) {
	case 0, 1:
		*v = model.Version{Deleted: true}
	case 2:
		v.ExpiresAt = testkit.ClockStart / 2
	case 3:
		v.ExpiresAt = testkit.ClockStart * 2
	case 4:
		v.User = byte(1 + rng.IntN(255))
	}
}

// A Ledger holds what the world outside a life was told.
type Ledger struct {
	Seed, Life uint64
	before     *model.Map // the state in which the life began
	// fresh is the size of a value that every transaction gives to a key of
	// its own, so that the database grows; 0 for none.
	Fresh int

	mu      sync.Mutex
	Commits map[uint64]WorkID // by version
	newest  map[uint64]uint64 // by writer: its last transaction that was acknowledged

	// known and durable are the newest commits that were acknowledged, at all
	// and as durable.
	Known, Durable atomic.Uint64
}

// NewLedger returns the ledger of a life on a database whose state is before.
func NewLedger(seed, life uint64, before *model.Map) *Ledger {
	l := &Ledger{Seed: seed, Life: life, before: before}
	l.Commits, l.newest = make(map[uint64]WorkID), make(map[uint64]uint64)
	// The opening of this life has seen the state before it.
	l.Known.Store(before.Last())
	l.Durable.Store(before.Last())
	return l
}

// Writes makes what a transaction writes.
func (l *Ledger) Writes(id WorkID) []model.Write {
	writes := id.writes(l.Seed)
	if l.Fresh > 0 {
		key := fmt.Sprintf("fresh/%v", id)
		writes = append(writes, model.Write{Key: key, Version: model.Version{Value: id.noise(l.Seed, l.Fresh)}})
	}
	return writes
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

// Settle returns the model of the state that tx reads. Every commit up to
// there is one that was acknowledged, or the one at the end of a writer's work
// that got no answer; none at or before floor is missing.
func (l *Ledger) Settle(tx stoat.Txn, floor uint64) (*model.Map, error) {
	version := tx.ReadVersion()
	if version < floor {
		return nil, fmt.Errorf("recovered commit %d, but %d was acknowledged as safe", version, floor)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.recognize(tx); err != nil {
		return nil, err
	}
	m := l.before.Clone()
	for seq := m.Last() + 1; seq <= version; seq++ {
		id, ok := l.Commits[seq]
		if !ok {
			return nil, fmt.Errorf("recovered commit %d, but nobody can have made commit %d", version, seq)
		}
		m.Commit(l.Writes(id))
	}
	if m.Last() != version {
		return nil, fmt.Errorf("recovered commit %d, but the life began at %d", version, m.Last())
	}
	return m, nil
}

// recognize adds the commits that got no answer: a writer has at most one,
// and the last that it did is the value of its marker.
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
