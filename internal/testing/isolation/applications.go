package isolation

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// An Application is a workload that keeps its own invariant and checks only
// that. Each is a known trap for engines that are almost serializable.
type Application struct {
	Name string
	// Fill writes the initial state.
	Fill func(Tx) error
	// Work is one transaction of a client. It returns errNothingToDo to abandon
	// its transaction.
	Work func(tx Tx, rng *rand.Rand) error
	// Look checks the invariant in one read-only transaction.
	Look func(tx Tx) error
}

// errNothingToDo ends a transaction that found nothing to do.
var errNothingToDo = errors.New("nothing to do")

// Applications returns fresh copies of all applications.
func Applications() []Application {
	return []Application{
		doctors(), doctorsByScan(), roomBooking(), absentTwins(), uniqueNames(),
		receipts(), bank(), counters(), queue(), blackAndWhite(), deposits(),
	}
}

// Play runs the application with several clients. Each client runs txns
// transactions and checks the invariant in between. Play checks it again when
// all clients are done. It returns how many commits conflicted.
func (a Application) Play(store Store, clients, txns int, seed uint64) (conflicts int, err error) {
	if _, err := attempt(store, true, a.Fill); err != nil {
		return 0, fmt.Errorf("%s: fill: %w", a.Name, err)
	}
	errs := make([]error, clients)
	conflicted := make([]int, clients)
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			conflicted[i], errs[i] = a.client(store, txns, rng)
		})
	}
	group.Wait()
	for _, n := range conflicted {
		conflicts += n
	}
	if err := errors.Join(errs...); err != nil {
		return conflicts, fmt.Errorf("%s: %w", a.Name, err)
	}
	if _, err := attempt(store, false, a.Look); err != nil {
		return conflicts, fmt.Errorf("%s: at the end: %w", a.Name, err)
	}
	return conflicts, nil
}

func (a Application) client(store Store, txns int, rng *rand.Rand) (conflicts int, err error) {
	work := func(tx Tx) error { return a.Work(yielding{tx, rng}, rng) }
	for range txns {
		if rng.IntN(4) == 0 {
			if _, err := attempt(store, false, a.Look); err != nil {
				return conflicts, err
			}
		}
		conflict, err := attempt(store, true, work)
		if err != nil {
			return conflicts, err
		}
		if conflict {
			conflicts++
		}
	}
	return conflicts, nil
}

// attempt runs do in one transaction and commits it.
func attempt(store Store, write bool, do func(Tx) error) (conflict bool, err error) {
	if u, ok := store.(Updater); ok && write {
		ended, err := u.Update(1, do)
		if errors.Is(err, errNothingToDo) {
			err = nil
		}
		return ended.Conflict, err
	}
	tx, err := store.Begin(write)
	if err != nil {
		return false, err
	}
	defer tx.Discard()
	if err := do(tx); err != nil {
		if errors.Is(err, errNothingToDo) {
			return false, nil
		}
		return false, err
	}
	ended, err := tx.Commit()
	return ended.Conflict, err
}

// yielding lets other goroutines run between the operations of a transaction, so
// that transactions overlap on any number of processors.
type yielding struct {
	Tx
	rng *rand.Rand
}

func (g yielding) pause() {
	if g.rng.IntN(2) == 0 {
		runtime.Gosched()
	}
}

func (g yielding) Get(key string) (Item, bool, error) {
	defer g.pause()
	return g.Tx.Get(key)
}

func (g yielding) Scan(q Query) ([]Item, bool, error) {
	defer g.pause()
	return g.Tx.Scan(q)
}

// number reads a key that holds a number; an absent key is 0.
func number(tx Tx, key string) (int, error) {
	it, found, err := tx.Get(key)
	if err != nil || !found {
		return 0, err
	}
	return strconv.Atoi(it.Value)
}

func setNumber(tx Tx, key string, n int) error { return tx.Set(key, strconv.Itoa(n)) }

// prefix returns the query for all keys that begin with p.
func prefix(p string) Query {
	return Query{Lo: p, Hi: p[:len(p)-1] + string(p[len(p)-1]+1)}
}

// fillNumbers returns a Fill that sets keys to n.
func fillNumbers(n int, keys ...string) func(Tx) error {
	return func(tx Tx) error {
		for _, key := range keys {
			if err := setNumber(tx, key, n); err != nil {
				return err
			}
		}
		return nil
	}
}

// sum scans a prefix and adds up its numbers.
func sum(tx Tx, p string, reverse bool) (total, count int, err error) {
	q := prefix(p)
	q.Reverse = reverse
	items, _, err := tx.Scan(q)
	for _, it := range items {
		n, convErr := strconv.Atoi(it.Value)
		if convErr != nil {
			return 0, 0, fmt.Errorf("%s holds %q: %w", it.Key, it.Value, convErr)
		}
		total += n
	}
	return total, len(items), err
}

func numbered(p string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s%03d", p, i)
	}
	return keys
}

// parseTail returns the number after the last slash of a key.
func parseTail(key string) (int, error) {
	return strconv.Atoi(key[strings.LastIndexByte(key, '/')+1:])
}
