package table

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
)

// missedTable is a table of n entries. misses counts how often it began to count as missed.
func missedTable(t *testing.T, n int) (r *Reader, entries []base.Entry, misses *int) {
	for i := range n {
		entries = append(entries, base.Entry{Key: fmt.Appendf(nil, "key%08d", i), Value: make([]byte, 40), Seq: 1, Meta: base.Meta{Kind: base.KindSet}})
	}
	data, _ := mustBuild(t, entries, WriterOptions{})
	misses = new(int)
	return mustOpen(t, data, ReaderOptions{Missed: func() { *misses++ }}), entries, misses
}

// getSome gets every n-th key.
func getSome(t *testing.T, r *Reader, entries []base.Entry, n int) {
	t.Helper()
	for i := 0; i < len(entries); i += n {
		key := entries[i].Key
		if _, _, _, ok, err := r.Get(key, hashOf(key), base.SeqNumMax, nil); err != nil || !ok {
			t.Fatalf("%s: found %t, %v", key, ok, err)
		}
	}
}

func TestGet_ATableCountsAsMissedOnceManyPiecesWereNotInMemory(t *testing.T) {
	t.Parallel()
	r, entries, misses := missedTable(t, 20_000)
	getSome(t, r, entries, 10_000)
	if *misses != 0 || r.TakeMissed() {
		t.Fatal("two reads make it count as missed")
	}
	getSome(t, r, entries, 100)
	getSome(t, r, entries, 1)
	if *misses != 1 || !r.TakeMissed() || r.TakeMissed() {
		t.Fatalf("it began to count as missed %d times, want once", *misses)
	}
	if err := r.DropPages(); err != nil {
		t.Fatal(err)
	}
	getSome(t, r, entries, 1)
	if *misses != 2 {
		t.Fatalf("it began to count as missed %d times, want again after its pages were dropped", *misses)
	}
	if err := r.DropPages(); err != nil {
		t.Fatal(err)
	}
	if r.TakeMissed() {
		t.Fatal("it still counts as missed after its pages were dropped again")
	}
}

func TestGet_AMissedTableThatWasNotLoadedCountsAgainAfterTwiceAsMany(t *testing.T) {
	t.Parallel()
	r, entries, _ := missedTable(t, 20_000)
	var at []int64 // the numbers of pieces
	for i := range entries {
		getSome(t, r, entries[i:i+1], 1)
		if r.TakeMissed() {
			at = append(at, r.misses.Load())
		}
	}
	if len(at) < 3 {
		t.Fatalf("it counts as missed after %d pieces", at)
	}
	for i := range at[1:] {
		if at[i+1] < 2*at[i]-2 || at[i+1] > 2*at[i]+2 { // a get may fetch several pieces
			t.Fatalf("it counts as missed after %d pieces", at)
		}
	}
}

func TestLoad_EndsWhenItIsToldToStop(t *testing.T) {
	t.Parallel()
	r, _, _ := missedTable(t, 200_000)
	asked := 0
	stop := func() bool {
		asked++
		return asked > 1
	}
	if err := r.Load(stop); err != nil {
		t.Fatal(err)
	}
	if n := r.PageBytes(); asked != 2 || n < loadStep || n > 2*loadStep || n > r.sumsOff()/2 {
		t.Fatalf("%d bytes of %d are in memory after %d questions", n, r.sumsOff(), asked)
	}
}

func TestGet_ALoadedTableDoesNotCountAsMissed(t *testing.T) {
	t.Parallel()
	r, entries, misses := missedTable(t, 20_000)
	if err := r.Load(nil); err != nil {
		t.Fatal(err)
	}
	getSome(t, r, entries, 1)
	if *misses != 0 {
		t.Fatal("it counts as missed")
	}
}

func TestIter_SeeksCountAsMissesButScansDoNot(t *testing.T) {
	t.Parallel()
	r, entries, misses := missedTable(t, 5000) // few pieces are many of so small a table
	it := r.NewIter(IterOptions{})
	n := 0
	b := iter.Batch{Want: iter.BatchSize}
	it.Seek(nil)
	for more := true; more; more = b.N > 0 {
		if err := it.Fill(&b); err != nil {
			t.Fatal(err)
		}
		n += b.N
	}
	if n != len(entries) || *misses != 0 {
		t.Fatalf("%d entries, %d misses after a scan", n, *misses)
	}
	if err := r.DropPages(); err != nil {
		t.Fatal(err)
	}
	b.Want = 1
	for i := 0; i < len(entries); i += 100 {
		it.Seek(entries[i].Key)
		if err := it.Fill(&b); err != nil {
			t.Fatal(err)
		}
	}
	if *misses != 1 {
		t.Fatalf("it began to count as missed %d times after seeks, want once", *misses)
	}
}
