package memtable

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// commitKeys adds n keys, from number from on, as one commit.
func commitKeys(t *testing.T, table *Table, from, n int, seq base.SeqNum) {
	t.Helper()
	for i := from; i < from+n; i++ {
		set(t, table, fmt.Sprintf("%08d", i), "value", seq)
	}
}

// readFirst seeks, and reads the first entry. It returns the longest run that it saw.
func readFirst(t *testing.T, table *Table, from string) *run {
	t.Helper()
	var it Iter
	it.Init(table, false)
	it.Seek([]byte(from))
	drain(t, &it, 1, 1)
	longest := it.set.runs[0]
	it.Close()
	return longest
}

func TestSettle_ReadersBetweenCommitsDoNotMergeALongRun(t *testing.T) {
	t.Parallel()
	const keys, commits, readers = 20_000, 200, 16
	table := New(Options{})
	defer table.Release()
	commitKeys(t, table, 0, keys, 1)
	long := readFirst(t, table, "")
	if len(long.items) != keys {
		t.Fatalf("a run of %d items, want %d", len(long.items), keys)
	}
	for seq := range commits {
		commitKeys(t, table, keys+seq, 1, base.SeqNum(2+seq))
		for range readers {
			if readFirst(t, table, "5") != long {
				t.Fatalf("the readers after commit %d merged the run of all older keys", seq)
			}
		}
	}
}

func TestSettle_ReadersMergeTheRunsOfATableAtRestOnceTheyHavePaid(t *testing.T) {
	t.Parallel()
	const keys = 20_000
	table := New(Options{})
	defer table.Release()
	commitKeys(t, table, 0, keys, 1)
	long := readFirst(t, table, "")
	commitKeys(t, table, keys, 100, 2)
	// Each reader seeks in two runs.
	reads := 0
	for readFirst(t, table, "") == long {
		if reads++; reads > 2*keys/seekCost {
			t.Fatalf("%d readers sought in both runs", reads)
		}
	}
	if reads < keys/seekCost/2 {
		t.Errorf("the runs were merged after %d reads, which pay for %d items", reads, reads*seekCost)
	}
	if now := readFirst(t, table, ""); len(now.items) != keys+100 {
		t.Errorf("a run of %d items, want all of them", len(now.items))
	}
}
