package main

import (
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
	fail(t, exitError, "has timestamps", "get", "-keyspace", "prices", dir, "apple")
	fail(t, exitError, "has no timestamps", "set", "-at", "5", dir, "apple", "1")
	fail(t, exitUsage, "goes with neither", "del", "-keyspace", "prices", "-at", "5", "-prefix", dir, "a")
	fail(t, exitUsage, "invalid value", "get", "-keyspace", "prices", "-at", "soon", dir, "apple")
	if list := succeed(t, "keyspaces", dir); !strings.Contains(list, "checked") {
		t.Errorf("the keyspaces are %s", list)
	}
}
