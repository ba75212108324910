package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTimestamps_CommandsTakeThem(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	expect(t, "", "create", dir)
	expect(t, "", "keyspaces", "-create", "prices", "-timestamps", dir)
	expect(t, "", "set", "-keyspace", "prices", "-at", "20", dir, "apple", "2")
	expect(t, "", "set", "-keyspace", "prices", "-at", "10", dir, "apple", "1")
	expect(t, "", "del", "-keyspace", "prices", "-at", "30", dir, "apple")
	expect(t, "1", "get", "-keyspace", "prices", "-at", "19", dir, "apple")
	expect(t, "apple\t2\n", "scan", "-keyspace", "prices", "-at", "29", dir)
	fail(t, exitError, "there is no key apple", "get", "-keyspace", "prices", "-at", "30", dir, "apple")
	fail(t, exitError, `stoat: the keyspace "prices" has timestamps: set the flag -at`, "get", "-keyspace", "prices", dir, "apple")
	fail(t, exitError, "set the flag -at", "scan", "-keyspace", "prices", dir)
	fail(t, exitError, "stoat: the keyspace (default) has no timestamps: leave out the flag -at", "set", "-at", "5", dir, "apple", "1")
	fail(t, exitError, "this command cannot set", "renew", "-ttl", "1h", "-keyspace", "prices", dir, "apple")
	fail(t, exitError, "set the flag -at", "load", "-keyspace", "prices", dir, os.DevNull)
	lines, packed := filepath.Join(t.TempDir(), "lines"), filepath.Join(t.TempDir(), "packed")
	if err := os.WriteFile(lines, []byte("pear\t3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, "1 keys loaded\n", "load", "-keyspace", "prices", "-at", "40", dir, lines)
	succeed(t, "pack", lines, packed)
	expect(t, "1 keys ingested\n", "ingest", "-keyspace", "prices", "-at", "50", dir, packed)
	fail(t, exitError, "there is no key pear", "get", "-keyspace", "prices", "-at", "39", dir, "pear")
	expect(t, "pear\t3\n", "scan", "-keyspace", "prices", "-at", "40", dir)
	expect(t, "", "del", "-keyspace", "prices", "-prefix", dir, "pear")
	fail(t, exitError, "only -at and -prefix can", "del", "-keyspace", "prices", "-range", dir, "a", "b")
	fail(t, exitUsage, "goes with neither", "del", "-keyspace", "prices", "-at", "5", "-prefix", dir, "a")
	fail(t, exitUsage, `invalid value "soon" for flag -at: want a whole number from 0 to 18446744073709551615`, "get", "-keyspace", "prices", "-at", "soon", dir, "apple")
	expect(t, "", "del", "-keyspace", "prices", "-prefix", dir, "a")
	fail(t, exitError, "there is no key apple", "get", "-keyspace", "prices", "-at", "19", dir, "apple")
	if list := succeed(t, "keyspaces", dir); !strings.Contains(list, "checked") {
		t.Errorf("the keyspaces are %s", list)
	}
}
