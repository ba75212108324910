package memtable

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestDeletions_AreCountedAndFound(t *testing.T) {
	t.Parallel()
	set := func(to *Table, key string, kind base.Kind, seq base.SeqNum) {
		t.Helper()
		value := []byte(nil)
		if kind == base.KindDeleteRange {
			value = []byte(key + "~")
		}
		if err := to.Set([]byte(key), value, base.Hash([]byte(key), 0), base.Meta{Kind: kind}, seq); err != nil {
			t.Fatal(err)
		}
	}
	to, pending := New(Options{}), New(Options{})
	set(to, "a", base.KindDelete, 1)
	set(to, "b", base.KindSet, 2)
	for life := range 2 {
		set(pending, "c", base.KindDelete, 0)
		set(pending, "d", base.KindDelete, 0)
		set(pending, "d", base.KindSet, 0) // so it is not deleted
		set(pending, "e", base.KindDeleteRange, 0)
		if err := to.AppendTable(pending, base.SeqNum(3+life), nil); err != nil {
			t.Fatal(err)
		}
		pending.Reset()
		if n := pending.Deletions(); n != 0 {
			t.Errorf("%d deletions in an empty table", n)
		}
	}
	if n := to.Deletions(); n != 5 {
		t.Errorf("%d deletions, want 5", n)
	}
	var found []string
	to.DeletedKeys(func(key []byte) bool {
		found = append(found, string(key))
		return len(found) < 3
	})
	if got := fmt.Sprint(found); got != "[c c a]" {
		t.Errorf("deleted keys %s, want c, c, a", got)
	}
}
