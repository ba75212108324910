package main

import (
	"strings"
	"testing"
)

func TestKeyspaces_CommandsUseThem(t *testing.T) {
	t.Parallel()
	dir := create(t)
	expect(t, "", "set", dir, "k", "default")
	fail(t, exitError, `stoat: there is no keyspace "users"; 'stoat keyspaces' lists them`, "get", "-keyspace", "users", dir, "k")
	fail(t, exitError, "there is no keyspace", "set", "-keyspace", "users", dir, "k", "v")
	expect(t, "", "keyspaces", "-create", "users", dir)
	expect(t, "", "set", "-keyspace", "users", dir, "k", "user")
	expect(t, "", "set", "-keyspace", "users", dir, "k2", "user")
	expect(t, "default", "get", dir, "k")
	expect(t, "user", "get", "-keyspace", "users", dir, "k")
	expect(t, "k\tdefault\n", "scan", dir)
	expect(t, "k\tuser\nk2\tuser\n", "scan", "-keyspace", "users", dir)
	lines := strings.Split(succeed(t, "keyspaces", dir), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[1], "(default) ") || !strings.HasPrefix(lines[2], `"users" `) {
		t.Errorf("the keyspaces are %q", lines)
	}
	expect(t, "", "del", "-prefix", "-keyspace", "users", dir, "k2")
	expect(t, "", "del", "-keyspace", "users", dir, "k")
	expect(t, "", "scan", "-keyspace", "users", dir)
	expect(t, "default", "get", dir, "k")
	succeed(t, "check", dir)
	succeed(t, "stats", dir)
	expect(t, "", "keyspaces", "-drop", "users", dir)
	fail(t, exitError, "there is no keyspace", "scan", "-keyspace", "users", dir)
	fail(t, exitError, `stoat: there is no keyspace "users"; 'stoat keyspaces' lists them`, "keyspaces", "-drop", "users", dir)
	fail(t, exitUsage, "use either -create or -drop, not both", "keyspaces", "-create", "a", "-drop", "b", dir)
	fail(t, exitUsage, "-timestamps needs -create", "keyspaces", "-timestamps", dir)
	succeed(t, "check", dir)
}
