package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/merge"
)

func TestCommands_KnowTheMergeFunctionsOfTheModule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		function    stoat.MergeFunction
		operand     []byte
		value, line string
	}{
		{merge.Append, []byte("x"), "xx", "k\txx\n"},
		{merge.Counter, merge.Add(3), string(merge.Add(6)), "k\t" + `\x00\x00\x00\x00\x00\x00\x00\x06` + "\n"},
		{merge.Last(1), merge.Push([]byte("x")), "\x01x", "k\t" + `\x01x` + "\n"},
		{merge.Last(12345), merge.Push([]byte("x")), "\x01x\x01x", "k\t" + `\x01x\x01x` + "\n"},
		{merge.Set, merge.Insert([]byte("x")), "\x01x", "k\t" + `\x01x` + "\n"},
	} {
		dir := filepath.Join(t.TempDir(), "db")
		db, err := stoat.Open(dir, &stoat.Options{MergeFunction: c.function.Name(), MergeFunctions: []stoat.MergeFunction{c.function}})
		for range 2 {
			if err == nil {
				err = db.Update(func(tx stoat.Txn) error { return tx.Merge([]byte("k"), c.operand) })
			}
		}
		if err == nil {
			err = db.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c.value, "get", dir, "k")
		expect(t, c.line, "scan", dir)
		expect(t, "k\n", "scan", "-keys", dir)
		expect(t, "", "renew", "-ttl", "1h", dir, "k")
		succeed(t, "compact", dir)
		for _, table := range filesIn(t, dir, "*.table") {
			if out := succeed(t, "dump", table); strings.Contains(out, "\noperand") {
				t.Errorf("compact left operands of %s: %s", c.function.Name(), out)
			}
		}
		expect(t, c.value, "get", dir, "k")
	}
}

func TestCommands_KnowTheListFunctionsOfAllKeyspaces(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	db, err := stoat.Open(dir, &stoat.Options{MergeFunction: merge.Last(2).Name(),
		MergeFunctions: []stoat.MergeFunction{merge.Last(1), merge.Last(2)}})
	if err != nil {
		t.Fatal(err)
	}
	lengths := map[string]int{"": 2, "one": 1, "two": 2}
	for name, length := range lengths {
		var ks *stoat.Keyspace // nil is the default keyspace
		if name != "" {
			ks, err = db.Keyspace(name, &stoat.KeyspaceOptions{MergeFunction: merge.Last(length).Name()})
		}
		for range 3 {
			if err == nil {
				err = db.Update(func(tx stoat.Txn) error { return tx.In(ks).Merge([]byte("k"), merge.Push([]byte("x"))) })
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for name, length := range lengths {
		args := []string{"get", dir, "k"}
		if name != "" {
			args = []string{"get", "-keyspace", name, dir, "k"}
		}
		expect(t, strings.Repeat("\x01x", length), args...)
	}
	succeed(t, "configure", "-merge-function", merge.Last(1).Name(), dir)
	expect(t, "\x01x", "get", dir, "k")
	succeed(t, "configure", "-merge-function", "stoat.last.01", dir)
	fail(t, exitError, "stoat.last.01", "get", dir, "k")
}
