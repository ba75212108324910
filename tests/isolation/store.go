package isolation

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/isolation"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
)

// A storeUnderTest shows a database to the workloads of package isolation.
type storeUnderTest struct {
	db *stoat.DB
	// space is the keyspace of all keys; nil is the default keyspace. Other histories
	// on the same disk use other keyspaces.
	space *stoat.Keyspace
	// counts and timed are those of isolation.History. They belong to the keyspace.
	counts, timed bool
	// filtered says that the keyspace has a compaction filter, spelling.
	filtered bool
	// mixed makes some commits buffered and some asynchronous.
	mixed bool
	turns atomic.Uint64
	scans atomic.Uint64
	// synced is the newest commit that was acknowledged as durable.
	synced atomic.Uint64
}

// name returns the name of the keyspace.
func (s *storeUnderTest) name() string {
	if s.space == nil {
		return ""
	}
	return s.space.Name()
}

func (s *storeUnderTest) Begin(write bool) (isolation.Tx, error) {
	mode := stoat.ReadOnly
	if write {
		mode = stoat.ReadWrite
	}
	tx, err := s.db.Begin(mode)
	if err != nil {
		return nil, err
	}
	return s.of(tx), nil
}

// An updating store also runs transactions in DB.Update with Retries.
type updatingStore struct{ *storeUnderTest }

func (s *updatingStore) Update(retries int, do func(isolation.Tx) error) (isolation.Commit, error) {
	var last stoat.Txn
	d := s.durability()
	err := s.db.Update(func(tx stoat.Txn) error {
		last = tx
		return do(s.of(tx))
	}, stoat.Retries(retries), stoat.WithDurability(d))
	return s.ended(last.CommitVersion(), d, err)
}

// ended returns how a commit ended, and notes what it made durable.
func (s *storeUnderTest) ended(version uint64, d stoat.Durability, err error) (isolation.Commit, error) {
	switch {
	case errors.Is(err, stoat.ErrConflict):
		return isolation.Commit{Conflict: true}, nil
	case err == nil && d == stoat.Synced:
		testkit.Raise(&s.synced, version)
	}
	return isolation.Commit{Version: version}, err
}

// durability draws how durable the next update is.
func (s *storeUnderTest) durability() stoat.Durability {
	if s.mixed && s.turns.Add(1)%3 == 0 {
		return stoat.Buffered
	}
	return stoat.Synced
}

// of returns a transaction in the keyspace of the history.
func (s *storeUnderTest) of(tx stoat.Txn) isolation.Tx {
	t := txUnderTest{Txn: tx.In(s.space), store: s}
	if s.timed {
		return &timedUnderTest{txUnderTest: t}
	}
	return &t
}

type txUnderTest struct {
	stoat.Txn
	store *storeUnderTest
}

// At panics: the keyspace has no timestamps.
func (t *txUnderTest) At(uint64) { panic("a timestamp in a keyspace without timestamps") }

func (t *txUnderTest) Get(key string) (isolation.Item, bool, error) {
	return t.store.found(t.Txn.GetItem([]byte(key)))
}

// found returns what a point read finds.
func (s *storeUnderTest) found(item stoat.Item, err error) (isolation.Item, bool, error) {
	if errors.Is(err, stoat.ErrNotFound) {
		return isolation.Item{}, false, nil
	}
	if err != nil {
		return isolation.Item{}, false, err
	}
	value, err := item.Value()
	if err != nil {
		return isolation.Item{}, false, err
	}
	it, err := s.item(item, item.Key(), value)
	return it, err == nil, err
}

// item returns an item for the checker.
func (s *storeUnderTest) item(item stoat.Item, key, value []byte) (isolation.Item, error) {
	it := isolation.Item{Key: string(key), Value: string(s.respelled(value)), Version: item.Version(), Deleted: item.Deleted()}
	if s.timed {
		it.At = item.Timestamp()
	}
	if s.counts && value != nil {
		n, err := merge.Count(value)
		if err != nil {
			return it, err
		}
		it.Value = strconv.FormatInt(n, 10)
	}
	return it, nil
}

// bytes returns a value or an operand as the database gets it.
func (s *storeUnderTest) bytes(value string) []byte {
	if !s.counts {
		return []byte(value)
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		panic(err)
	}
	return merge.Add(n)
}

func (t *txUnderTest) Scan(q isolation.Query) ([]isolation.Item, bool, error) {
	o, way := t.store.wayOf(q)
	return t.store.scan(t.Txn.Iterator(o), q, way)
}

func options(q isolation.Query) stoat.IterOptions {
	o := stoat.IterOptions{Reverse: q.Reverse, KeysOnly: q.KeysOnly, AllVersions: q.All}
	if q.Lo != "" {
		o.Lower = []byte(q.Lo)
	}
	if q.Hi != "" {
		o.Upper = []byte(q.Hi)
	}
	return o
}

// A walker is a stoat.Iterator or a stoat.TimedIterator.
type walker interface {
	Next() bool
	Prev() bool
	Key() []byte
	Value() []byte
	Item() stoat.Item
	Err() error
	Close() error
}

// A scanWay says how a scan moves. Half of the scans go backward through an iterator of
// the other direction. Half of each go back by a step at the end, into what they have read.
type scanWay struct{ backward, goesBack bool }

// wayOf returns the options of the iterator for a query, and how the scan moves it.
func (s *storeUnderTest) wayOf(q isolation.Query) (stoat.IterOptions, scanWay) {
	n, o := s.scans.Add(1), options(q)
	way := scanWay{backward: n&1 != 0, goesBack: n&2 != 0}
	if way.backward {
		o.Reverse = !o.Reverse
	}
	return o, way
}

// scan walks to the limit of a query, or to its end.
func (s *storeUnderTest) scan(it walker, q isolation.Query, way scanWay) (items []isolation.Item, exhausted bool, err error) {
	defer func() { _ = it.Close() }() // Err has the error
	on, back := it.Next, it.Prev
	if way.backward {
		on, back = it.Prev, it.Next
	}
	defer func() {
		if way.goesBack && err == nil && len(items) > 1 && !back() {
			err = fmt.Errorf("no way back from %q: %w", items[len(items)-1].Key, it.Err())
		}
	}()
	for q.Limit == 0 || len(items) < q.Limit {
		if !on() {
			return items, true, it.Err()
		}
		item, err := s.item(it.Item(), it.Key(), it.Value())
		if err != nil {
			return nil, false, err
		}
		items = append(items, item)
	}
	return items, false, nil
}

func (t *txUnderTest) Set(key, value string) error {
	return t.Txn.Set([]byte(key), t.store.bytes(value))
}

func (t *txUnderTest) Merge(key, operand string) error {
	return t.Txn.Merge([]byte(key), t.store.bytes(operand))
}

func (t *txUnderTest) Renew(key string) error {
	return t.Txn.Renew([]byte(key), stoat.TTL(distant))
}

// distant is a time to live that no test waits for.
const distant = 10_000 * time.Hour

func (t *txUnderTest) Delete(key string) error {
	return t.Txn.Delete([]byte(key))
}

func (t *txUnderTest) DeleteRange(lo, hi string) error {
	return t.Txn.DeleteRange([]byte(lo), end(hi))
}

// end returns the end of a range. An empty one is no bound.
func end(hi string) []byte {
	if hi == "" {
		return nil
	}
	return []byte(hi)
}

func (t *txUnderTest) Commit() (isolation.Commit, error) {
	d := stoat.Synced
	if t.store.mixed {
		switch t.store.turns.Add(1) % 6 {
		case 0, 1:
			d = stoat.Buffered
		case 2:
			return t.commitAsync()
		}
	}
	err := t.Txn.Commit(stoat.WithDurability(d))
	return t.store.ended(t.Txn.CommitVersion(), d, err)
}

func (t *txUnderTest) commitAsync() (isolation.Commit, error) {
	var version uint64
	done := make(chan error, 1)
	t.Txn.CommitAsync(func(v uint64, err error) {
		version = v
		done <- err
	}, stoat.WithDurability(stoat.Synced))
	err := <-done
	return t.store.ended(version, stoat.Synced, err)
}

// A timedUnderTest is a transaction in a keyspace with timestamps.
type timedUnderTest struct {
	txUnderTest
	at uint64
}

func (t *timedUnderTest) now() stoat.TimedTxn { return t.Txn.At(t.at) }

func (t *timedUnderTest) At(timestamp uint64) { t.at = timestamp }

func (t *timedUnderTest) Get(key string) (isolation.Item, bool, error) {
	return t.store.found(t.now().GetItem([]byte(key)))
}

func (t *timedUnderTest) Scan(q isolation.Query) ([]isolation.Item, bool, error) {
	o, way := t.store.wayOf(q)
	return t.store.scan(t.now().Iterator(o), q, way)
}

func (t *timedUnderTest) Set(key, value string) error {
	return t.now().Set([]byte(key), []byte(value))
}

func (t *timedUnderTest) Delete(key string) error {
	return t.now().Delete([]byte(key))
}

func (t *timedUnderTest) DeleteRange(lo, hi string) error {
	return t.now().PurgeRange([]byte(lo), end(hi))
}
