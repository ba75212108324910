package main

import (
	"path/filepath"
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
		expect(t, c.value, "get", dir, "k")
	}
}
