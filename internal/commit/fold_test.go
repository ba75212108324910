package commit

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/vfs"
)

// A mergeFunc is a merge function of one Go function.
type mergeFunc func(existing []byte) []byte

func (mergeFunc) Name() string { return "test" }
func (f mergeFunc) Merge(_, _, existing []byte, _ [][]byte) ([]byte, error) {
	return f(existing), nil
}

// folding returns a committer with a merge function, and the memory of a value that its
// memtable has.
func folding(t *testing.T, f mergeFunc, key, value []byte) (c *Committer, below []byte) {
	t.Helper()
	store := newStore()
	t.Cleanup(store.Abandon)
	named := func([]byte) string { return f.Name() }
	c = New(Options{Store: store, MemtableSize: storeMemtable, Functions: partial.NewFunctions(named, []partial.Function{f})})
	table, hash := store.View().Memtables[0], base.Hash(key, 0)
	if err := table.Set(key, value, hash, base.Meta{Kind: base.KindSet}, 1); err != nil {
		t.Fatal(err)
	}
	table.Versions(key, hash, base.SeqNumMax, func(value []byte, _ base.Meta, _ base.SeqNum) bool {
		below = value
		return false
	})
	return c, below
}

// The version below stays only as long as foldOnApply pins it. Its caller copies the value
// later, when a flush may have freed that version.
func TestFold_TheValueIsNoMemoryOfTheVersionBelow(t *testing.T) {
	t.Parallel()
	key, value := []byte("key"), []byte("value")
	c, below := folding(t, func(existing []byte) []byte { return existing }, key, value)
	for name, entry := range map[string]struct {
		kind  base.Kind
		steps []byte
	}{
		"renewal":                               {base.KindRenew, partial.AppendRenewal(nil, 1, 1<<40)},
		"a function that returns what is there": {base.KindMerge, partial.AppendOperand(nil, 1, []byte("x"))},
	} {
		got, _, ok := c.foldOnApply(key, entry.steps, entry.kind)
		if !ok || string(got) != string(value) {
			t.Fatalf("%s: %q, folded %t", name, got, ok)
		}
		if &got[0] == &below[0] {
			t.Errorf("%s: the value lies in the memtable", name)
		}
	}
}

// A leader that a merge function ended would hold build for ever.
func TestFold_AMergeFunctionEndsOnlyItsOwnGoroutine(t *testing.T) {
	t.Parallel()
	key := []byte("key")
	c, _ := folding(t, func([]byte) []byte { runtime.Goexit(); return nil }, key, []byte("value"))
	if got, _, ok := c.foldOnApply(key, partial.AppendOperand(nil, 1, []byte("x")), base.KindMerge); ok {
		t.Errorf("folded to %q", got)
	}
}

func TestFold_ALongValueStaysUnfolded(t *testing.T) {
	t.Parallel()
	key := []byte("key")
	for length, want := range map[int]bool{foldMax: true, foldMax + 1: false} {
		c, _ := folding(t, func([]byte) []byte { return make([]byte, length) }, key, []byte("value"))
		if _, _, ok := c.foldOnApply(key, partial.AppendOperand(nil, 1, []byte("x")), base.KindMerge); ok != want {
			t.Errorf("a value of %d bytes is folded: %t, want %t", length, ok, want)
		}
	}
}

// A merge function that reads a lost page of a file is not to blame.
func TestFold_AFaultInAMergeFunctionIsAnErrorOfTheFile(t *testing.T) {
	t.Parallel()
	f, err := vfs.OS().Create(t.TempDir()+"/f", vfs.CatNone)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(make([]byte, 1<<16), 0)
	lost, mapErr := f.Map(1 << 16)
	if err = errors.Join(err, mapErr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lost.Close() })
	if err := errors.Join(f.Truncate(0), f.Close()); err != nil {
		t.Fatal(err)
	}
	key := []byte("key")
	c, _ := folding(t, func(existing []byte) []byte { return []byte{existing[0]} }, key, []byte("value"))
	outcome := partial.Outcome{Base: partial.Base{Present: true}, FromBase: true, Operands: [][]byte{{1}}}
	if value, err := c.foldedValue(key, lost.Bytes(), &outcome); !errors.Is(err, vfs.ErrIO) || errors.Is(err, partial.ErrFunction) {
		t.Errorf("%q, %v, want %v", value, err, vfs.ErrIO)
	}
}
