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

func TestCommands_OnlyRekeyChangesTheMasterKey(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, old, both := filepath.Join(at, "db"), filepath.Join(at, "old"), filepath.Join(at, "both")
	first, second := "first "+strings.Repeat("0a", 32)+"\n", "second "+strings.Repeat("b1", 32)+"\n"
	for name, lines := range map[string]string{old: first, both: second + first} {
		if err := os.WriteFile(name, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	protectedBy := func(id, after string) {
		t.Helper()
		if out := succeed(t, "info", "-key-file", both, dir); !strings.Contains(out, "master key \""+id+"\"") {
			t.Errorf("after %s: %s", after, out)
		}
	}
	succeed(t, "create", "-key-file", old, dir)
	for _, args := range [][]string{
		{"set", "-key-file", both, dir, "ann", "1"}, {"compact", "-key-file", both, dir}, {"check", "-repair", "-key-file", both, dir},
		{"configure", "-key-file", both, "-versions", "2", dir}, {"upgrade", "-key-file", both, dir},
	} {
		succeed(t, args...)
		protectedBy("first", args[0])
	}
	expect(t, "1", "get", "-key-file", old, dir, "ann")
	succeed(t, "rekey", "-key-file", both, dir)
	protectedBy("second", "rekey")
}
