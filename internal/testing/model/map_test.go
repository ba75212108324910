package model

import (
	"strings"
	"testing"
)

// fruit is a map with five commits.
func fruit() *Map {
	m := NewMap()
	m.Commit([]Write{{"apple", Version{Value: "1"}}, {"cherry", Version{Value: "1"}}})  // 1
	m.Commit([]Write{{"banana", Version{Value: "2", ExpiresAt: 100}}})                  // 2
	m.Commit([]Write{{"apple", Version{Deleted: true}}})                                // 3
	m.Commit([]Write{{"cherry", Version{Value: "3"}}, {"cherry", Version{Value: "4"}}}) // 4
	m.Commit([]Write{{"apple", Version{Value: "5", User: 7}}})                          // 5
	return m
}

func show(items []Item) string {
	var b strings.Builder
	for _, it := range items {
		b.WriteString(it.String() + " ")
	}
	return strings.TrimSpace(b.String())
}

func TestScan_ShowsEachSnapshot(t *testing.T) {
	t.Parallel()
	m := fruit()
	for _, c := range []struct {
		seq, now uint64
		want     string
	}{
		{0, 0, ``},
		{1, 0, `"apple"#1="1" "cherry"#1="1"`},
		{2, 99, `"apple"#1="1" "banana"#2="2" until 100 "cherry"#1="1"`},
		{2, 100, `"apple"#1="1" "cherry"#1="1"`},
		{3, 100, `"cherry"#1="1"`},
		{4, 100, `"cherry"#4="4"`},
		{5, 100, `"apple"#5="5" user 7 "cherry"#4="4"`},
	} {
		if got := show(m.Scan(c.seq, c.now)); got != c.want {
			t.Errorf("at %d, %d ms: got %s, want %s", c.seq, c.now, got, c.want)
		}
	}
}

func TestAllVersions_NewestFirst(t *testing.T) {
	t.Parallel()
	const want = `"apple"#3 DEL "banana"#2="2" until 100 "cherry"#4="4"`
	if got := show(fruit().AllVersions(1, 4)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTruncate_RemovesAllTracesOfLaterCommits(t *testing.T) {
	t.Parallel()
	m := fruit()
	copied := m.Clone()
	m.Truncate(2)
	if m.Last() != 2 || m.Len() != 3 {
		t.Errorf("last is %d and there are %d keys, want 2 and 3", m.Last(), m.Len())
	}
	if d := Diff(m.Scan(2, 0), fruit().Scan(2, 0)); d != "" {
		t.Error(d)
	}
	m.Truncate(0)
	if m.Len() != 0 {
		t.Errorf("an empty map has %d keys", m.Len())
	}
	if d := Diff(copied.Scan(5, 0), fruit().Scan(5, 0)); d != "" {
		t.Errorf("the copy changed with the original: %s", d)
	}
}

func TestDiff_SaysWhere(t *testing.T) {
	t.Parallel()
	a := fruit().Scan(5, 100)
	b := fruit().Scan(4, 100)
	if d := Diff(a, b); !strings.HasPrefix(d, "item 0: got \"apple\"#5") {
		t.Errorf("got %q", d)
	}
	if d := Diff(a[:1], a); !strings.HasPrefix(d, "item 1: got no more") {
		t.Errorf("got %q", d)
	}
	if d := Diff(a, a); d != "" {
		t.Errorf("got %q for the same items", d)
	}
}

func TestConflicts_AreWritesOfWhatWasRead(t *testing.T) {
	t.Parallel()
	set := Version{Value: "x"}
	for _, c := range []struct {
		name  string
		read  func(*Txn)
		other string
		want  bool
	}{
		{"present point", func(t *Txn) { t.Get("b") }, "b", true},
		{"absent point", func(t *Txn) { t.Get("q") }, "q", true},
		{"another point", func(t *Txn) { t.Get("b") }, "a", false},
		{"own write is no read", func(t *Txn) { t.Write("b", set); t.Get("b") }, "b", false},
		{"nothing read", func(*Txn) {}, "b", false},
		{"gap passed over", func(t *Txn) { it := t.Iterator(IterOptions{}); it.First(); it.Next() }, "aa", true},
		{"behind the last shown", func(t *Txn) { it := t.Iterator(IterOptions{}); it.First(); it.Next() }, "ba", false},
		{"before the first shown", func(t *Txn) { t.Iterator(IterOptions{}).Seek("aa") }, "aaa", true},
		{"before the seek", func(t *Txn) { t.Iterator(IterOptions{}).Seek("aa") }, "a", false},
		{"the tail", func(t *Txn) { t.Iterator(IterOptions{}).Seek("x") }, "z", true},
		{"beyond the bound", func(t *Txn) { t.Iterator(IterOptions{Upper: "y", Bounded: true}).Seek("x") }, "y", false},
		{"reverse above the seek", func(t *Txn) { t.Iterator(IterOptions{Reverse: true}).Seek("bz") }, "bzz", false},
		{"reverse at the seek", func(t *Txn) { t.Iterator(IterOptions{Reverse: true}).Seek("bz") }, "bz", true},
		{"reverse below the shown", func(t *Txn) { t.Iterator(IterOptions{Reverse: true}).Seek("bz") }, "az", false},
		{"reverse to the head", func(t *Txn) { t.Iterator(IterOptions{Reverse: true}).Seek("A") }, "0", true},
		{"a range before a seek elsewhere", func(t *Txn) { it := t.Iterator(IterOptions{}); it.First(); it.Seek("c"); it.Close() }, "a", true},
		{"an iterator never positioned", func(t *Txn) { t.Iterator(IterOptions{}) }, "a", false},
		{"a prefix", func(t *Txn) { t.Iterator(IterOptions{Prefix: "b"}).Seek("bb") }, "c", false},
	} {
		m := NewMap()
		m.Commit([]Write{{"a", set}, {"b", set}, {"c", set}})
		tx := m.Begin(1, true)
		tx.Write("own", set)
		c.read(tx)
		m.Commit([]Write{{c.other, Version{Deleted: true}}})
		if _, ok := tx.Commit(); ok == c.want {
			t.Errorf("%s: conflict is %v, want %v", c.name, !ok, c.want)
		}
	}
}
