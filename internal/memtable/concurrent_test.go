package memtable

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sort"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
)

// A schedule fixes in advance which transaction writes which keys, so that
// readers know what they must see.
type schedule struct {
	keys   [][]byte
	hashes []uint64
	txns   [][]int         // keys by transaction; transaction i has number i+1
	seqs   [][]base.SeqNum // ascending, by key
}

func newSchedule(r *rand.Rand, keys, txns, size int) *schedule {
	s := &schedule{seqs: make([][]base.SeqNum, keys)}
	for i := range keys {
		k := fmt.Appendf(nil, "key/%05d", i)
		s.keys = append(s.keys, k)
		s.hashes = append(s.hashes, hashOf(k))
	}
	for i := range txns {
		chosen := r.Perm(keys)[:1+r.IntN(size)]
		for _, k := range chosen {
			s.seqs[k] = append(s.seqs[k], base.SeqNum(i+1))
		}
		s.txns = append(s.txns, chosen)
	}
	return s
}

// newest returns the version of a key that a snapshot sees, or 0.
func (s *schedule) newest(key int, at base.SeqNum) base.SeqNum {
	seqs := s.seqs[key]
	i := sort.Search(len(seqs), func(i int) bool { return seqs[i] > at })
	if i == 0 {
		return 0
	}
	return seqs[i-1]
}

func valueOf(key int, seq base.SeqNum) []byte {
	return binary.LittleEndian.AppendUint64(nil, uint64(key)<<32|uint64(seq))
}

// write applies all transactions and moves visible after each.
func (s *schedule) write(t *testing.T, table *Table, visible *atomic.Uint64) {
	txn := New(Options{ChunkSize: 1 << 10})
	for i, chosen := range s.txns {
		seq := base.SeqNum(i + 1)
		meta := base.Meta{Kind: base.KindSet, User: byte(i)}
		for _, k := range chosen {
			to, at := txn, base.SeqNum(0)
			if len(chosen) == 1 {
				to, at = table, seq
			}
			if err := to.Set(s.keys[k], valueOf(k, seq), s.hashes[k], meta, at); err != nil {
				t.Error(err)
				return
			}
		}
		if len(chosen) > 1 {
			if err := table.AppendTable(txn, seq, nil); err != nil {
				t.Error(err)
				return
			}
		}
		txn.Reset()
		visible.Store(uint64(seq))
	}
}

func (s *schedule) readPoints(r *rand.Rand, table *Table, at base.SeqNum) error {
	for range 50 {
		k := r.IntN(len(s.keys))
		v, m, seq, ok := table.Get(s.keys[k], s.hashes[k], at)
		want := s.newest(k, at)
		if ok != (want > 0) || seq != want {
			return fmt.Errorf("get of key %d at %d: version %d, %v; want %d", k, at, seq, ok, want)
		}
		if ok && (string(v) != string(valueOf(k, want)) || m.User != byte(want-1)) {
			return fmt.Errorf("get of key %d at %d: value %x, meta %+v", k, at, v, m)
		}
	}
	return nil
}

// readAll iterates over the whole table and checks that it shows each version
// up to at once and in order.
func (s *schedule) readAll(table *Table, it *Iter, at base.SeqNum, reverse bool) error {
	it.Init(table, reverse)
	it.Seek(nil)
	var b iter.Batch
	shown := 0
	var lastKey string
	var lastSeq base.SeqNum
	for b.Want = 1; ; b.Want = min(2*b.Want, iter.BatchSize) {
		if err := it.Fill(&b); err != nil {
			return err
		}
		if b.N == 0 {
			break
		}
		for i := range b.N {
			key, seq := string(b.Entries[i].Key), b.Entries[i].Seq
			rising := key > lastKey || key == lastKey && seq < lastSeq
			if reverse {
				rising = key < lastKey || key == lastKey && seq > lastSeq
			}
			if lastKey != "" && !rising {
				return fmt.Errorf("%q at %d after %q at %d", key, seq, lastKey, lastSeq)
			}
			lastKey, lastSeq = key, seq
			var k int
			if _, err := fmt.Sscanf(key, "key/%d", &k); err != nil {
				return fmt.Errorf("key %q: %w", key, err)
			}
			if string(b.Entries[i].Value) != string(valueOf(k, seq)) {
				return fmt.Errorf("%q at %d has value %x", key, seq, b.Entries[i].Value)
			}
			if seq <= at {
				shown++
			}
		}
	}
	want := 0
	for _, chosen := range s.txns[:at] {
		want += len(chosen)
	}
	if shown != want {
		return fmt.Errorf("an iterator (reverse %v) shows %d versions up to %d, want %d", reverse, shown, at, want)
	}
	return nil
}

// readNewer checks that Newer shows whole transactions down to the snapshot.
func (s *schedule) readNewer(table *Table, from, at base.SeqNum) error {
	shown := 0
	last := base.SeqNumMax
	var err error
	table.Newer(from, func(hash uint32, ref Ref) bool {
		seq := table.Seq(ref)
		if seq > last || seq <= from || uint32(hashOf(table.Key(ref))>>32) != hash {
			err = fmt.Errorf("Newer(%d) shows %q at %d after %d", from, table.Key(ref), seq, last)
			return false
		}
		last = seq
		if seq <= at {
			shown++
		}
		return true
	})
	want := 0
	for _, chosen := range s.txns[from:at] {
		want += len(chosen)
	}
	if err == nil && shown != want {
		return fmt.Errorf("Newer(%d) shows %d entries up to %d, want %d", from, shown, at, want)
	}
	return err
}

func TestReaders_SeeWhatWasPublishedBesideAWriter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                string
		keys, txns, size    int
		hint, tail, readers int
	}{
		{"few keys", 5, 3000, 3, 0, 64, 3},
		{"growing", 3000, 1500, 30, 0, 500, 3},
		{"sized", 3000, 500, 60, 40_000, 0, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := rng(t, uint64(c.keys))
			s := newSchedule(r, c.keys, c.txns, c.size)
			mem := newCounting()
			table := New(Options{Memory: mem, ChunkSize: 512, SizeHint: c.hint, TailMax: c.tail})
			var visible atomic.Uint64
			var done atomic.Bool
			var wg sync.WaitGroup
			for i := range c.readers {
				r := rand.New(rand.NewPCG(*seedFlag, uint64(i)))
				wg.Go(func() {
					var it Iter
					defer it.Close()
					for last := false; !last; {
						last = done.Load()
						at := base.SeqNum(visible.Load())
						err := s.readPoints(r, table, at)
						if err == nil {
							err = s.readNewer(table, base.SeqNum(r.Uint64N(uint64(at)+1)), at)
						}
						if err == nil && (last || r.IntN(10) == 0) {
							err = s.readAll(table, &it, at, r.IntN(2) == 0)
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			s.write(t, table, &visible)
			done.Store(true)
			wg.Wait()
			table.Release()
			if mem.held() != 0 {
				t.Fatalf("%d bytes are held after Release", mem.held())
			}
		})
	}
}

// TestPending_ReadersBesideTheirWriter has one goroutine overwrite the keys of a
// transaction while others read it. Readers see values that never go back, and
// iterators see each key once.
func TestPending_ReadersBesideTheirWriter(t *testing.T) {
	t.Parallel()
	const keys, rounds = 40, 200
	table := New(Options{ChunkSize: 512, TailMax: 100})
	names := make([][]byte, keys)
	for i := range names {
		names[i] = fmt.Appendf(nil, "key/%05d", i)
	}
	write := func(round int) {
		for _, k := range names {
			v := binary.LittleEndian.AppendUint64(nil, uint64(round))
			if err := table.Set(k, v, hashOf(k), base.Meta{Kind: base.KindSet}, 0); err != nil {
				t.Error(err)
			}
		}
	}
	write(0)
	var done atomic.Bool
	var wg sync.WaitGroup
	for reader := range 3 {
		wg.Go(func() {
			seen := make([]uint64, keys)
			var it Iter
			defer it.Close()
			var b iter.Batch
			for !done.Load() {
				for i, k := range names {
					v, _, _, ok := table.Get(k, hashOf(k), 0)
					if !ok || binary.LittleEndian.Uint64(v) < seen[i] {
						t.Errorf("key %d reads as %x, %v after %d", i, v, ok, seen[i])
						return
					}
					seen[i] = binary.LittleEndian.Uint64(v)
				}
				it.Init(table, reader == 0)
				it.Seek(nil)
				n := 0
				for b.Want = iter.BatchSize; ; n += b.N {
					if err := it.Fill(&b); err != nil {
						t.Error(err)
						return
					}
					if b.N == 0 {
						break
					}
				}
				if n != keys {
					t.Errorf("an iterator shows %d keys of %d", n, keys)
					return
				}
			}
		})
	}
	for round := 1; round < rounds; round++ {
		write(round)
	}
	done.Store(true)
	wg.Wait()
}
