package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommands_EncryptedDatabase(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	file := filepath.Join(t.TempDir(), "keys")
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := "first "+strings.Repeat("0a", 32), "second "+strings.Repeat("b1", 32)
	write("# the keys of the test", "", first)
	key := "-key-file=" + file
	expect(t, "", "create", key, dir)
	expect(t, "", "set", key, dir, "ann", "1")
	expect(t, "1", "get", key, dir, "ann")
	expect(t, "ann\t1\n", "scan", key, dir)
	succeed(t, "compact", key, dir)
	expect(t, "", "checkpoint", key, dir, dir+"-copy")
	expect(t, "1", "get", key, dir+"-copy", "ann")
	succeed(t, "check", key, dir)
	succeed(t, "stats", key, dir)
	fail(t, exitError, "stoat: the database in "+dir+" is encrypted: it needs the flag -key-file\n", "get", dir, "ann")
	fail(t, exitError, "needs the flag -key-file", "set", dir, "ann", "2")
	fail(t, exitUsage, "needs the flag -key-file", "rekey", dir)

	write(second, first)
	expect(t, "", "rekey", key, dir)
	write(second)
	expect(t, "1", "get", key, dir, "ann")
	fail(t, exitError, `stoat: encryption key: the database needs the master key "first", which Options.Keys lacks`+"\n", "get", key, dir+"-copy", "ann")
	write("no key")
	fail(t, exitError, "line 1", "get", key, dir, "ann")
	fail(t, exitError, "the key file", "get", "-key-file="+file+"?", dir, "ann")
	plain := create(t)
	write(first)
	fail(t, exitError, "the database is not encrypted: leave Options.Keys nil", "get", key, plain, "ann")
}
