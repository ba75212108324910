package benchmarks

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
)

// BenchmarkQueue pops the first key: one transaction finds it, deletes it and commits
// without a sync. A goroutine beside it appends. Before the clock starts, the queue has
// lost many keys in one of several ways.
func BenchmarkQueue(b *testing.B) {
	for _, c := range queueCases {
		for _, popped := range []int{0, 10_000, 100_000, 1_000_000} {
			if popped == 0 && c.name != "memory" {
				continue
			}
			b.Run(fmt.Sprintf("%s/popped=%d", c.name, popped), func(b *testing.B) {
				db := openBench(b, stoat.Options{Durability: stoat.Buffered, MemtableSize: c.memtable})
				q := &benchQueue{db: db, reverse: c.reverse}
				q.next.Store(queueMiddle)
				q.head.Store(queueMiddle)
				release := c.fill(b, q, popped)
				defer release()
				if err := q.append(1000); err != nil {
					b.Fatal(err)
				}
				for range 100 { // the first ones walk over what was deleted before
					if _, err := q.pop(); err != nil {
						b.Fatal(err)
					}
					q.head.Add(1)
				}
				q.measure(b, max(c.readers, 1))
			})
		}
	}
}

type queueCase struct {
	name     string
	memtable int64
	reverse  bool
	readers  int
	// fill makes popped keys that are gone. release ends what it has left open.
	fill func(b *testing.B, q *benchQueue, popped int) (release func())
}

var queueCases = []queueCase{
	{name: "memory", memtable: 1 << 30, fill: fillPopped},
	{name: "memtables", memtable: 4 << 20, fill: fillPopped},
	// The merge keeps what the snapshot sees, and the tombstones above it.
	{name: "tables", fill: func(b *testing.B, q *benchQueue, popped int) func() {
		release := fillUnderSnapshot(b, q, popped)
		if err := q.db.Compact(b.Context(), stoat.CompactOptions{}); err != nil {
			b.Fatal(err)
		}
		return release
	}},
	{name: "expired", memtable: 1 << 30, fill: func(b *testing.B, q *benchQueue, popped int) func() {
		fillBatches(b, popped, func(tx stoat.Txn) error {
			return tx.Set(q.key(q.next.Add(1)), queueValue, stoat.TTL(time.Millisecond))
		}, q.db)
		q.head.Store(q.next.Load())
		time.Sleep(2 * time.Millisecond)
		return func() {}
	}},
	{name: "snapshot", memtable: 1 << 30, fill: fillUnderSnapshot},
	{name: "backward", memtable: 1 << 30, reverse: true, fill: fillPopped},
	{name: "16readers", memtable: 1 << 30, readers: 16, fill: fillPopped},
}

// queueMiddle is a number in the middle of ten digits.
const queueMiddle = 5_000_000_000

var queueValue = make([]byte, 100)

// A benchQueue has the keys from head to next. Its keys descend if it is reversed.
type benchQueue struct {
	db         *stoat.DB
	reverse    bool
	head, next atomic.Int64
}

func (q *benchQueue) key(n int64) []byte {
	if q.reverse {
		n = 2*queueMiddle - n
	}
	return benchKey(nil, int(n))
}

// append appends n keys in small transactions.
func (q *benchQueue) append(n int) error {
	for n > 0 {
		err := q.db.Update(func(tx stoat.Txn) error {
			for i := 0; i < 100 && n > 0; i++ {
				if err := tx.Set(q.key(q.next.Add(1)), queueValue); err != nil {
					return err
				}
				n--
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pop deletes the first key, and reports whether there was one.
func (q *benchQueue) pop() (popped bool, err error) {
	err = q.db.Update(func(tx stoat.Txn) error {
		popped = false
		it := tx.Iterator(stoat.IterOptions{Reverse: q.reverse})
		defer it.Close()
		if !it.First() {
			return it.Err()
		}
		popped = true
		return tx.Delete(it.Key())
	})
	return popped, err
}

// peek reads the first key.
func (q *benchQueue) peek() error {
	return q.db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{Reverse: q.reverse})
		defer it.Close()
		it.First()
		return it.Err()
	})
}

// measure pops while one goroutine appends and keeps a backlog. Further readers look at
// the head.
func (q *benchQueue) measure(b *testing.B, readers int) {
	var stop atomic.Bool
	var others sync.WaitGroup
	others.Go(func() {
		for !stop.Load() {
			if q.next.Load()-q.head.Load() > 2000 {
				time.Sleep(50 * time.Microsecond)
				continue
			}
			if err := q.append(100); err != nil {
				b.Error(err)
				return
			}
		}
	})
	for range readers - 1 {
		others.Go(func() {
			for !stop.Load() {
				if err := q.peek(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	b.ResetTimer()
	for n := 0; n < b.N; {
		popped, err := q.pop()
		if err != nil {
			b.Fatal(err)
		}
		if popped {
			n++
			q.head.Add(1)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pops/s")
	stop.Store(true)
	others.Wait()
}

func fillPopped(b *testing.B, q *benchQueue, popped int) func() {
	if err := q.append(popped); err != nil {
		b.Fatal(err)
	}
	deletePopped(b, q, popped)
	return func() {}
}

// fillUnderSnapshot is fillPopped with a transaction open that sees the keys.
func fillUnderSnapshot(b *testing.B, q *benchQueue, popped int) func() {
	if err := q.append(popped); err != nil {
		b.Fatal(err)
	}
	old, err := q.db.Begin(stoat.ReadOnly)
	if err != nil {
		b.Fatal(err)
	}
	deletePopped(b, q, popped)
	return old.Discard
}

func deletePopped(b *testing.B, q *benchQueue, popped int) {
	fillBatches(b, popped, func(tx stoat.Txn) error { return tx.Delete(q.key(q.head.Add(1))) }, q.db)
}

// fillBatches calls write n times, in transactions of a thousand writes.
func fillBatches(b *testing.B, n int, write func(tx stoat.Txn) error, db *stoat.DB) {
	for n > 0 {
		piece := min(n, 1000)
		err := db.Update(func(tx stoat.Txn) error {
			for range piece {
				if err := write(tx); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		n -= piece
	}
}
