package follow

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
)

// tail is the merge function of the databases.
var tail = model.Tail{Keep: 50}

// A state is what a database holds at a version: values by the name of the keyspace, a
// slash and the key. It is immutable.
type state map[string]string

// A history has the state of each version, before a follower can see the version.
type history struct {
	mu     sync.Mutex
	states map[uint64]state // guarded by mu, like the rest
	last   uint64           // the newest version that the writer knows to be committed
	// dropped has the versions from which on the keyspace "passing" was dropped.
	dropped []uint64
	kept    uint64 // everything up to it is durable
}

func newHistory() *history { return &history{states: map[uint64]state{0: {}}} }

// propose says that the next version will have the state that change makes.
func (h *history) propose(change func(state)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := maps.Clone(h.states[h.last])
	change(next)
	h.states[h.last+1] = next
}

// settle says which version is the newest one. It is the last one, or the proposed one.
func (h *history) settle(version uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if version != h.last && version != h.last+1 || h.states[version] == nil {
		return fmt.Errorf("the writer is at version %d, after version %d", version, h.last)
	}
	h.last = version
	return nil
}

// keep says that the writer or a follower has made everything up to a version durable.
func (h *history) keep(version uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = max(h.kept, version)
}

// forget says that a power cut has taken the versions after last.
func (h *history) forget(last uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.states[last] == nil {
		return fmt.Errorf("a power cut took the writer to version %d, which it never had", last)
	}
	if last < h.kept {
		return fmt.Errorf("a power cut took the writer to version %d, but version %d was durable", last, h.kept)
	}
	for v := range h.states {
		if v > last {
			delete(h.states, v)
		}
	}
	h.last, h.kept = last, last
	return nil
}

// drops says that the next version drops the keyspace "passing".
func (h *history) drops() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropped = append(h.dropped, h.last+1)
}

// at returns the state of a version.
func (h *history) at(version uint64) (s state, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok = h.states[version]
	return s, ok
}

// dropsAfter reports whether the keyspace "passing" was dropped after a version.
func (h *history) dropsAfter(version uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.dropped, func(at uint64) bool { return at > version })
}

// newest returns the newest version that is known to be committed.
func (h *history) newest() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// passing is a keyspace that is dropped and made again, other one that stays.
const (
	passing = "passing"
	other   = "other"
)

const keysMax = 60

// valueOf draws a value. Most are short. At times it draws one for a value file, or one
// that a commit writes to a value file.
func valueOf(rng *rand.Rand) string {
	n := rng.IntN(40)
	switch rng.IntN(24) {
	case 0:
		n = 20_000 + rng.IntN(30_000)
	case 1, 2, 3:
		n = 500 + rng.IntN(3000)
	}
	return fmt.Sprintf("%x", rng.Uint32()) + strings.Repeat(string(rune('a'+rng.IntN(26))), n)
}

// A write is a change of one keyspace.
type write struct {
	space    string
	kind     writeKind
	key, end string
	value    string
}

type writeKind uint8

const (
	set writeKind = iota
	remove
	removeRange
	merge
)

// draw returns the writes of a transaction in keyspaces.
func draw(rng *rand.Rand, spaces []string) (writes []write) {
	for range 1 + rng.IntN(6) {
		w := write{space: spaces[rng.IntN(len(spaces))], key: keyOf(rng.IntN(keysMax))}
		switch rng.IntN(12) {
		case 0:
			w.kind = remove
		case 1:
			w.kind, w.end = removeRange, w.key+"~"
			if rng.IntN(3) == 0 {
				w.end = "k9"
			}
		case 2, 3:
			w = write{kind: merge, key: fmt.Sprintf("sum%d", rng.IntN(3)), value: fmt.Sprintf("+%d", rng.IntN(1000))}
		default:
			w.value = valueOf(rng)
		}
		writes = append(writes, w)
	}
	return writes
}

func keyOf(i int) string { return fmt.Sprintf("k%02d", i) }

// apply does writes to a state.
func (s state) apply(writes []write) {
	for _, w := range writes {
		key := w.space + "/" + w.key
		switch w.kind {
		case set:
			s[key] = w.value
		case remove:
			delete(s, key)
		case merge:
			s[key] = tail.Join(s[key], w.value)
		case removeRange:
			s.removeRange(key, w.space+"/"+w.end)
		}
	}
}

func (s state) removeRange(from, to string) {
	for k := range s {
		if k >= from && k < to {
			delete(s, k)
		}
	}
}

// put does writes in a transaction.
func put(tx stoat.Txn, spaces map[string]*stoat.Keyspace, writes []write) error {
	for _, w := range writes {
		in := tx.In(spaces[w.space])
		var err error
		switch w.kind {
		case set:
			err = in.Set([]byte(w.key), []byte(w.value))
		case remove:
			err = in.Delete([]byte(w.key))
		case merge:
			err = in.Merge([]byte(w.key), []byte(w.value))
		case removeRange:
			err = in.DeleteRange([]byte(w.key), []byte(w.end))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
