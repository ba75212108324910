package main

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
)

func TestKeyspaces_CommandsUseThem(t *testing.T) {
	t.Parallel()
	dir := create(t)
	expect(t, "", "set", dir, "k", "default")
	fail(t, exitError, `stoat: there is no keyspace "users"; 'stoat keyspaces' lists them`, "get", "-keyspace", "users", dir, "k")
	fail(t, exitError, "there is no keyspace", "set", "-keyspace", "users", dir, "k", "v")
	expect(t, "", "keyspaces", "-create", "users", dir)
	fail(t, exitError, `stoat: there is a keyspace "users" already`, "keyspaces", "-create", "users", dir)
	fail(t, exitError, `stoat: there is a keyspace "users" already`, "keyspaces", "-create", "users", "-timestamps", dir)
	expect(t, "", "set", "-keyspace", "users", dir, "k", "user")
	expect(t, "", "set", "-keyspace", "users", dir, "k2", "user")
	expect(t, "default", "get", dir, "k")
	expect(t, "user", "get", "-keyspace", "users", dir, "k")
	expect(t, "k\tdefault\n", "scan", dir)
	expect(t, "k\tuser\nk2\tuser\n", "scan", "-keyspace", "users", dir)
	lines := strings.Split(succeed(t, "keyspaces", dir), "\n")
	if len(lines) != 6 || !strings.HasPrefix(lines[1], "(default) ") || !strings.HasPrefix(lines[2], `"users" `) {
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

// words returns the words of the line of a text that begins with the given word.
func words(text, first string) []string {
	for line := range strings.Lines(text) {
		if w := strings.Fields(line); len(w) > 0 && w[0] == first {
			return w[1:]
		}
	}
	return nil
}

// Each setting has a value that no other has, and the texts show all of them.
func TestSettings_StatsAndKeyspacesPrintAllOfThem(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	db, err := stoat.Open(dir, &stoat.Options{NumVersions: 7, Compression: stoat.CompressionSmall, ValueThreshold: 777, LargeValueThreshold: 88_888,
		MergeFunction: "sum up", Filter: "trim", DefaultTTL: 36 * time.Hour, ChangeRetention: 123_456})
	if err == nil {
		_, err = db.Keyspace("plain", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsUnchecked})
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := reflect.TypeFor[stoat.Settings]().NumField(); n != 8 {
		t.Errorf("there are %d settings, and this test knows 8", n)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	stats, list := succeed(t, "stats", dir), succeed(t, "keyspaces", dir)
	_, settings, _ := strings.Cut(stats, "settings\n")
	for _, want := range [][]string{{"versions", "7"}, {"compression", "small"}, {"value", "threshold", "777"}, {"large", "values", "88888"},
		{"time", "to", "live", "36h0m0s"}, {"merge", "function", `"sum`, `up"`}, {"filter", `"trim"`}, {"change", "retention", "123456"}} {
		if got := words(settings, want[0]); len(got) < len(want)-1 || !reflect.DeepEqual(got[:len(want)-1], want[1:]) {
			t.Errorf("stats prints %q, want %q", got, want)
		}
	}
	for _, want := range []string{
		`(default) 7 small from 777 bytes from 88888 bytes 36h0m0s "sum up" "trim" no`,
		`"plain" 1 none from 512 bytes from 4096 bytes forever none none unchecked`,
		`change retention of all: 123456 bytes of the log`,
	} {
		first, rest, _ := strings.Cut(want, " ")
		if got := strings.Join(words(list, first), " "); got != rest {
			t.Errorf("keyspaces prints %q, want %q:\n%s", got, rest, list)
		}
	}
	if db, err = stoat.Open(dir, &stoat.Options{MergeFunction: "none", Filter: "none"}); err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	want := "7 small from 777 bytes from 88888 bytes 36h0m0s none none no"
	if got := strings.Join(words(succeed(t, "keyspaces", dir), "(default)"), " "); got != want {
		t.Errorf("without names, keyspaces prints %q, want %q", got, want)
	}
}
