package stoat_test

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

// A workID names one transaction of a life. Its writes follow from the name,
// so that a process only has to tell the name of what it has committed.
type workID struct {
	life, writer, n uint64
}

// keySpan is the number of keys that all writers share.
const keySpan = 300

// markerKey is the key to which a writer writes, in every transaction, which
// one it is. By it the ledger recognizes a commit that got no answer.
func markerKey(writer uint64) string { return fmt.Sprintf("writer/%02d", writer) }

func (id workID) String() string { return fmt.Sprintf("%d/%d/%d", id.life, id.writer, id.n) }

// workOf is the inverse of workID.String, on the value of a marker.
func workOf(marker string) (id workID, err error) {
	if _, err := fmt.Sscanf(marker, "%d/%d/%d", &id.life, &id.writer, &id.n); err != nil {
		return id, fmt.Errorf("marker %q: %w", marker, err)
	}
	return id, nil
}

// writes makes what the transaction writes.
func (id workID) writes(seed uint64) []model.Write {
	rng := rand.New(rand.NewPCG(seed<<20+id.life, id.writer<<32+id.n))
	writes := []model.Write{{Key: markerKey(id.writer), Version: model.Version{Value: id.String()}}}
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

// A ledger holds what the world outside a life was told.
type ledger struct {
	seed, life uint64
	before     *model.Map // the state in which the life began
	// fresh is the size of a value that every transaction gives to a key of
	// its own, so that the database grows; 0 for none.
	fresh int

	mu      sync.Mutex
	commits map[uint64]workID // by version
	newest  map[uint64]uint64 // by writer: its last transaction that was acknowledged

	// known and durable are the newest commits that were acknowledged, at all
	// and as durable.
	known, durable atomic.Uint64
}

func newLedger(seed, life uint64, before *model.Map) *ledger {
	l := &ledger{seed: seed, life: life, before: before}
	l.commits, l.newest = make(map[uint64]workID), make(map[uint64]uint64)
	// Who has opened the database has seen its state.
	l.known.Store(before.Last())
	l.durable.Store(before.Last())
	return l
}

// writes makes what a transaction writes.
func (l *ledger) writes(id workID) []model.Write {
	writes := id.writes(l.seed)
	if l.fresh > 0 {
		key := fmt.Sprintf("fresh/%v", id)
		writes = append(writes, model.Write{Key: key, Version: model.Version{Value: id.noise(l.seed, l.fresh)}})
	}
	return writes
}

// noise returns n bytes that follow from the name of a transaction and that no
// compression makes fewer.
func (id workID) noise(seed uint64, n int) string {
	rng := rand.New(rand.NewPCG(seed<<20+id.life, ^(id.writer<<32 + id.n)))
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, rng.Uint64())
	}
	return string(b[:n])
}

// committed notes that a transaction was acknowledged with a version.
func (l *ledger) committed(id workID, version uint64, d stoat.Durability) error {
	l.mu.Lock()
	other, taken := l.commits[version]
	l.commits[version] = id
	l.newest[id.writer] = max(l.newest[id.writer], id.n)
	l.mu.Unlock()
	if taken || version <= l.before.Last() {
		return fmt.Errorf("transaction %v was acknowledged as commit %d, which was there before (%v)", id, version, other)
	}
	testkit.Raise(&l.known, version)
	if d == stoat.Synced {
		testkit.Raise(&l.durable, version)
	}
	return nil
}

// settle returns the model of the state that tx reads. Every commit up to
// there is one that was acknowledged, or the one at the end of a writer's work
// that got no answer; none at or before floor is missing.
func (l *ledger) settle(tx *stoat.Txn, floor uint64) (*model.Map, error) {
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
		id, ok := l.commits[seq]
		if !ok {
			return nil, fmt.Errorf("recovered commit %d, but nobody can have made commit %d", version, seq)
		}
		m.Commit(l.writes(id))
	}
	if m.Last() != version {
		return nil, fmt.Errorf("recovered commit %d, but the life began at %d", version, m.Last())
	}
	return m, nil
}

// recognize adds the commits that got no answer: a writer has at most one,
// and the last that it did is the value of its marker.
func (l *ledger) recognize(tx *stoat.Txn) error {
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
		if _, known := l.commits[item.Version()]; known || id.life != l.life || id.n <= l.newest[writer] {
			continue // the comparison tells whether it should be so
		}
		l.commits[item.Version()] = id
	}
	return nil
}
