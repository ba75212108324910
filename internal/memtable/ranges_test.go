package memtable

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// A write is one operation, as the tests of range deletions remember it.
type write struct {
	key, value string // the bounds, for a range deletion; without a value it has no end
	meta       base.Meta
	seq        base.SeqNum
}

func (w write) covers(key string) bool {
	return w.meta.Kind == base.KindDeleteRange && w.key <= key && (w.value == "" || key < w.value)
}

// end is the exclusive end of a range deletion.
func (w write) end() []byte { return base.LoadedBound([]byte(w.value)) }

// A journal is all writes in order. A snapshot sees the last write to a key.
type journal []write

// at returns the write that a snapshot sees of key. It reports false for keys
// that are deleted or were never written.
func (j journal) at(key string, at base.SeqNum) (write, bool) {
	for _, w := range slices.Backward(j) {
		switch {
		case w.seq > at:
		case w.covers(key):
			return w, false
		case w.key == key && w.meta.Kind != base.KindDeleteRange:
			return w, w.meta.Kind == base.KindSet
		}
	}
	return write{}, false
}

// live returns the writes that a transaction passes to the write-ahead log.
// These are its range deletions, and the last write of each key, unless a range
// deletion covers it.
func (j journal) live() []write {
	var out []write
	for i, w := range j {
		last := true
		for _, later := range j[i+1:] {
			last = last && (w.meta.Kind == base.KindDeleteRange ||
				!later.covers(w.key) && (later.key != w.key || later.meta.Kind == base.KindDeleteRange))
		}
		if last {
			out = append(out, w)
		}
	}
	return out
}

func rangeKey(r *rand.Rand) string { return fmt.Sprintf("key-%03d", r.IntN(80)) }

// randomWrite returns a write. Most range deletions are short.
func randomWrite(r *rand.Rand, seq base.SeqNum) write {
	w := write{key: rangeKey(r), seq: seq}
	switch n := r.IntN(10); {
	case n < 3:
		w.meta.Kind, w.value = base.KindDeleteRange, fmt.Sprintf("%s%d", w.key, r.IntN(3))
		if r.IntN(2) == 0 {
			w.value = "key-" + fmt.Sprintf("%03d", r.IntN(90))
		}
		if w.value <= w.key {
			w.value = w.key + "x"
		}
		if r.IntN(12) == 0 {
			w.value = ""
		}
	case n < 4:
		w.meta.Kind = base.KindDelete
	default:
		w.meta, w.value = base.Meta{Kind: base.KindSet, User: byte(n)}, fmt.Sprint(r.Uint32())
	}
	return w
}

func mustSet(t testing.TB, table *Table, w write) {
	t.Helper()
	if err := table.Set([]byte(w.key), []byte(w.value), hashOf([]byte(w.key)), w.meta, w.seq); err != nil {
		t.Fatal(err)
	}
}

// checkJournal compares what snapshots see of a table with the journal. own
// says that the table is a transaction's own.
func checkJournal(t *testing.T, r *rand.Rand, table *Table, j journal, own bool) {
	t.Helper()
	last := base.SeqNum(0)
	if len(j) > 0 {
		last = j[len(j)-1].seq
	}
	for range 30 {
		key, at := rangeKey(r), base.SeqNum(r.Uint64N(uint64(last)+2))
		k := []byte(key)
		want, there := j.at(key, at)
		v, m, seq, ok := table.Get(k, hashOf(k), at)
		cover := table.Cover(k, at)
		if own && ok {
			seq = iter.PendingSeq
		}
		if ok && seq < cover {
			ok = false
		}
		if got := ok && m.Kind == base.KindSet; got != there || got && (string(v) != want.value || m != want.meta) {
			t.Fatalf("%s at %d is %q %v %v (covered by %d), want %v %v", key, at, v, m, got, cover, want, there)
		}
		if want.meta.Kind == base.KindDeleteRange && cover == 0 {
			t.Fatalf("%s at %d: older tables show through a range deletion", key, at)
		}
	}
	for _, reverse := range []bool{false, true} {
		checkShown(t, r, table, j, own, reverse, base.SeqNum(r.Uint64N(uint64(last)+2)))
	}
}

// checkShown iterates over a table, hides what deletions cover, and compares the
// rest with the journal.
func checkShown(t *testing.T, r *rand.Rand, table *Table, j journal, own, reverse bool, at base.SeqNum) {
	t.Helper()
	var it Iter
	it.Init(table, reverse)
	defer it.Close()
	var deletions rangedel.Cursor
	deletions.Init(reverse)
	table.AddDeletions(&deletions, at)
	it.Seek(nil)
	got := map[string]string{}
	entries := drain(t, &it, 1+r.IntN(iter.BatchSize), 1<<20)
	if !reverse {
		slices.Reverse(entries) // so that the newest version comes last
	}
	for _, e := range entries {
		if own {
			e.seq = iter.PendingSeq
		}
		seq, _ := deletions.At(e.key)
		if seq != table.Cover(e.key, at) {
			t.Fatalf("the cursor has %d for %q, Cover %d", seq, e.key, table.Cover(e.key, at))
		}
		if e.seq > at && !own {
			continue
		}
		delete(got, string(e.key))
		if e.seq >= seq && e.meta.Kind == base.KindSet {
			got[string(e.key)] = string(e.value)
		}
	}
	for i := range 90 {
		key := fmt.Sprintf("key-%03d", i)
		want, there := j.at(key, at)
		if v, ok := got[key]; ok != there || ok && v != want.value {
			t.Fatalf("reverse %v, at %d: %s is shown as %q %v, want %v %v", reverse, at, key, v, ok, want, there)
		}
	}
}

// checkLogged compares what a transaction's table passes to the log.
func checkLogged(t *testing.T, table *Table, j journal) {
	t.Helper()
	want := j.live()
	data := int64(0)
	for _, w := range want {
		data += int64(len(w.key) + len(w.value))
	}
	if table.LiveLen() != len(want) || table.DataBytes() != data {
		t.Fatalf("LiveLen %d, DataBytes %d, want %d and %d", table.LiveLen(), table.DataBytes(), len(want), data)
	}
	i := 0
	for e := range table.Entries {
		w := want[i]
		if string(e.Key) != w.key || string(e.Value) != w.value || e.Meta != w.meta {
			t.Fatalf("entry %d is %q %q %v, want %v", i, e.Key, e.Value, e.Meta, w)
		}
		i++
	}
	if i != len(want) {
		t.Fatalf("%d entries, want %d", i, len(want))
	}
}

func TestRangeDeletion_VisibleAsWritten(t *testing.T) {
	t.Parallel()
	for run := range uint64(12) {
		r := rng(t, run)
		mem := newCounting()
		table := New(Options{Memory: mem, ChunkSize: 256 << r.IntN(8), TailMax: 1 + r.IntN(60)})
		pending := New(Options{Memory: mem, ChunkSize: 1 << 10, TailMax: 1 + r.IntN(40)})
		var all journal
		seq := base.SeqNum(1)
		for range 40 {
			seq++
			var own journal
			for range r.IntN(30) * r.IntN(3) {
				w := randomWrite(r, 0)
				mustSet(t, pending, w)
				if own = append(own, w); r.IntN(8) == 0 {
					checkJournal(t, r, pending, own, true)
				}
				if r.IntN(12) == 0 {
					checkLogged(t, pending, own) // the transaction goes on writing
				}
			}
			if r.IntN(4) == 0 {
				w := randomWrite(r, seq)
				mustSet(t, table, w)
				all = append(all, w)
				seq++
			}
			checkLogged(t, pending, own)
			checkJournal(t, r, pending, own, true)
			if err := table.AppendTable(pending, seq, nil); err != nil {
				t.Fatal(err)
			}
			for _, w := range own {
				w.seq = seq
				all = append(all, w)
			}
			pending.Reset()
			checkJournal(t, r, table, all, false)
			checkNewerDeletions(t, table, all, base.SeqNum(r.Uint64N(uint64(seq)+1)))
		}
		checkRetained(t, r, table, all)
		table.Release()
		pending.Release()
		if mem.held() != 0 {
			t.Fatalf("%d bytes are held after Release", mem.held())
		}
	}
}

func TestRangeDeletion_HidesCoveredEntriesAfterStamp(t *testing.T) {
	t.Parallel()
	for run := range uint64(20) {
		r := rng(t, run)
		table := New(Options{ChunkSize: 1 << 10})
		var own journal
		for range r.IntN(200) {
			w := randomWrite(r, 0)
			mustSet(t, table, w)
			own = append(own, w)
		}
		if r.IntN(2) == 0 {
			checkJournal(t, r, table, own, true)
		}
		table.Stamp(50)
		for i := range own {
			own[i].seq = 50
		}
		checkLogged(t, table, own)
		checkJournal(t, r, table, own, false)
		checkNewerDeletions(t, table, own, base.SeqNum(49+r.IntN(2)))
		checkRetained(t, r, table, own)
	}
}

func checkNewerDeletions(t *testing.T, table *Table, j journal, than base.SeqNum) {
	t.Helper()
	var want []write
	for _, w := range slices.Backward(j) {
		if w.meta.Kind == base.KindDeleteRange && w.seq > than {
			want = append(want, w)
		}
	}
	i := 0
	table.NewerDeletions(than, func(lo, hi []byte) bool {
		if i >= len(want) || string(lo) != want[i].key || !bytes.Equal(hi, want[i].end()) {
			t.Fatalf("NewerDeletions(%d) shows [%s, %.40q) as number %d of %v", than, lo, hi, i, want)
		}
		i++
		return true
	})
	if i != len(want) {
		t.Fatalf("NewerDeletions(%d) shows %d, want %d", than, i, len(want))
	}
}

func checkRetained(t *testing.T, r *rand.Rand, table *Table, j journal) {
	t.Helper()
	var d []rangedel.Deletion
	for _, w := range j {
		if w.meta.Kind == base.KindDeleteRange {
			d = append(d, rangedel.Deletion{Lo: []byte(w.key), Hi: w.end(), Seq: w.seq})
		}
	}
	snapshots := []base.SeqNum{base.SeqNum(r.IntN(20)), base.SeqNum(20 + r.IntN(80))}
	got, want := table.retainDeletions(snapshots), rangedel.Build(d).Retain(snapshots, false)
	if !bytes.Equal(got.AppendTo(nil), want.AppendTo(nil)) {
		t.Fatalf("retained for %d: %x, want %x", snapshots, got.AppendTo(nil), want.AppendTo(nil))
	}
}

func TestRangeDeletion_IteratorIgnoresLaterDeletions(t *testing.T) {
	t.Parallel()
	table := New(Options{})
	for _, k := range []string{"a", "b", "c"} {
		set(t, table, k, "v", 0)
	}
	del := func(lo, hi string) {
		mustSet(t, table, write{key: lo, value: hi, meta: base.Meta{Kind: base.KindDeleteRange}})
	}
	shows := func(it *Iter) string {
		it.Seek(nil)
		out := ""
		for _, e := range drain(t, it, 10, 100) {
			out += string(e.key)
		}
		return out
	}
	var before, between, after Iter
	before.Init(table, false)
	del("a", "c")
	between.Init(table, false)
	set(t, table, "b", "again", 0)
	if table.LiveLen() != 3 { // c, the deletion, b
		t.Errorf("LiveLen is %d", table.LiveLen())
	}
	after.Init(table, false)
	del("c", "d")
	if got := shows(&before) + " " + shows(&between) + " " + shows(&after); got != "abc c bc" {
		t.Errorf("shown: %s", got)
	}
}

func TestRangeDeletion_RefusesInvalidRanges(t *testing.T) {
	t.Parallel()
	long := string(bytes.Repeat([]byte{'z'}, base.MaxKeySize+1))
	for _, w := range []write{{key: "b", value: "b"}, {key: "b", value: "a"}, {key: "", value: "b"}, {key: "", value: ""}, {key: "a", value: long},
		{key: "a", value: string(base.EndOfKeys)}, {key: long, value: ""}} {
		table := New(Options{})
		m := base.Meta{Kind: base.KindDeleteRange}
		if err := table.Set([]byte(w.key), []byte(w.value), 1, m, 1); err == nil || table.Len() != 0 || table.HasDeletions() {
			t.Errorf("[%.5q, %.5q): %v, %d entries", w.key, w.value, err, table.Len())
		}
	}
}

func TestRangeDeletion_WithoutAnEndTakesFewBytes(t *testing.T) {
	t.Parallel()
	mem := newCounting()
	table, txn := New(Options{Memory: mem, ChunkSize: 256}), New(Options{})
	last := bytes.Repeat([]byte{0xff}, base.MaxKeySize)
	for i := range base.SeqNum(1000) {
		mustSet(t, table, write{key: "from", meta: base.Meta{Kind: base.KindDeleteRange}, seq: 2*i + 1})
		mustSet(t, txn, write{key: "from", meta: base.Meta{Kind: base.KindDeleteRange}})
		if err := table.AppendTable(txn, 2*i+2, nil); err != nil {
			t.Fatal(err)
		}
		txn.Reset()
	}
	if got := table.Cover(last, base.SeqNumMax); got != 2000 {
		t.Errorf("the deletion %d covers the last key, want 2000", got)
	}
	if table.DataBytes() != 2000*int64(len("from")) || mem.held() > 200<<10 {
		t.Errorf("2000 deletions take %d bytes, %d with their memory", table.DataBytes(), mem.held())
	}
	table.NewerDeletions(1999, func(_, hi []byte) bool {
		if &hi[0] != &base.EndOfKeys[0] {
			t.Error("the end is a copy")
		}
		return true
	})
	table.Release()
}

func TestRangeDeletion_FailedAllocationChangesNothing(t *testing.T) {
	t.Parallel()
	for failing := range 8 {
		mem := newCounting()
		table, txn := New(Options{Memory: mem, ChunkSize: 256}), New(Options{})
		for i := range 3 {
			mustSet(t, txn, write{key: fmt.Sprint("k", i), value: fmt.Sprint("k", i, "x"), meta: base.Meta{Kind: base.KindDeleteRange}})
		}
		left := failing
		mem.failWhen(func(int) bool {
			left--
			return left == -1
		})
		first := table.Set([]byte("a"), []byte("b"), 1, base.Meta{Kind: base.KindDeleteRange}, 1)
		second := table.AppendTable(txn, 2, nil)
		want := 0
		for i, err := range []error{first, second} {
			if err != nil && !errors.Is(err, errNoMemory) {
				t.Fatal(err)
			}
			if err == nil {
				want += 1 + 2*i
			}
		}
		if n := table.retainDeletions(nil).Len(); n != want || table.Len() != want {
			t.Errorf("%d deletions, %d entries, want %d (%v, %v)", n, table.Len(), want, first, second)
		}
		table.Release()
		if mem.held() != 0 {
			t.Errorf("%d bytes are held after Release", mem.held())
		}
	}
}

// BenchmarkDeleteRange writes range deletions and looks up a key after each.
func BenchmarkDeleteRange(b *testing.B) {
	const n = 100_000
	for _, nested := range []bool{false, true} {
		b.Run(fmt.Sprintf("nested=%v", nested), func(b *testing.B) {
			table := New(Options{})
			meta := base.Meta{Kind: base.KindDeleteRange}
			lo, hi, none := []byte("queue/"), []byte("queue/00000000"), []byte("none")
			for i := range b.N {
				if i%n == 0 {
					table.Reset()
				}
				for j, x := len(hi)-1, i%n+1; x > 0; j, x = j-1, x/10 {
					hi[j] = '0' + byte(x%10)
				}
				if !nested {
					lo = append(lo[:0], hi...)
					lo[len(lo)-1]--
				}
				if err := table.Set(lo, hi, 1, meta, base.SeqNum(i%n+1)); err != nil {
					b.Fatal(err)
				}
				if table.Cover(none, base.SeqNumMax) != 0 {
					b.Fatal("covered")
				}
			}
		})
	}
}

func TestRetainDeletions_TakesThoseOfEveryTable(t *testing.T) {
	t.Parallel()
	var tables []*Table
	for _, key := range []string{"a", "", "c"} {
		table := New(Options{})
		defer table.Release()
		if key != "" {
			mustSet(t, table, write{key: key, value: key + "x", seq: base.SeqNum(key[0]), meta: base.Meta{Kind: base.KindDeleteRange}})
		}
		tables = append(tables, table)
	}
	if n := RetainDeletions(tables, nil).Len(); n != 2 {
		t.Errorf("%d deletions, want 2", n)
	}
}
