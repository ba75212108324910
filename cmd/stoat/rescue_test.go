package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// filesIn returns the files of a directory whose names match a pattern.
func filesIn(t *testing.T, dir, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("files %s in %s: %v, %v", pattern, dir, files, err)
	}
	return files
}

// spoil changes a byte of the first record or block of a file.
func spoil(t *testing.T, name string) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	content[min(len(content)/3, 100)] ^= 1 // the bytes behind a block may be padding
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSalvage_CopiesAndListsLosses(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	fill(t, dir)
	succeed(t, "compact", dir)
	to := dir + "-new"
	if out := succeed(t, "salvage", dir, to); !strings.Contains(out, "copied ") || strings.Contains(out, "lost") {
		t.Errorf("salvage of a sound database printed %q", out)
	}
	if got, want := succeed(t, "scan", "-hex", to), succeed(t, "scan", "-hex", dir); got != want {
		t.Error("the copy differs")
	}
	fail(t, exitError, "exists already", "salvage", dir, to)
	fail(t, exitError, "there is no database", "salvage", dir+"-none", to+"2")
	spoil(t, filesIn(t, dir, "*.values")[0])
	out, errOut, code := stoatCommand(t.Context(), "", "salvage", dir, to+"2")
	if code != exitError || !strings.Contains(out, "lost: ") || !strings.Contains(out, ".values") || !strings.Contains(errOut, "has the rest") {
		t.Errorf("exit code %d, printed %q, errors %q", code, out, errOut)
	}
	succeed(t, "check", to+"2")
	out = succeed(t, "salvage", "-all-files", to+"2", to+"3")
	if !strings.Contains(out, "note: every file counts") {
		t.Errorf("with -all-files it printed %q", out)
	}
}

// A rename cannot replace a symbolic link by a directory.
func TestCopies_ToALinkToNothingFailAtOnce(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, file, store, to := filepath.Join(at, "db"), filepath.Join(at, "file"), filepath.Join(at, "store"), filepath.Join(at, "to")
	fill(t, dir)
	succeed(t, "backup", dir, file)
	firstBackup(t, dir, store)
	if err := os.Symlink("nowhere", to); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"restore", file, to}, {"restore-files", store, to}, {"salvage", dir, to}, {"checkpoint", dir, to}} {
		fail(t, exitError, "exists", args...)
	}
	if left := filesIn(t, at, "to*"); len(left) != 1 {
		t.Errorf("the commands left %v", left)
	}
}

// Names and settings are lost, and deleted keys may be back. With -all-files, the caller knows.
func TestSalvage_ALostManifestIsALossUnlessAllFilesCount(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	fill(t, dir)
	succeed(t, "compact", dir)
	want := succeed(t, "scan", "-hex", dir)
	for _, name := range filesIn(t, dir, "MANIFEST-*") {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	fail(t, exitError, "the manifest of "+dir+" and 0 other parts are lost; "+dir+"2 has the rest", "salvage", dir, dir+"2")
	succeed(t, "salvage", "-all-files", dir, dir+"3")
	for _, to := range []string{"2", "3"} {
		expect(t, want, "scan", "-hex", dir+to)
	}
}

func TestSalvage_EncryptedDatabasesNeedTheirKeys(t *testing.T) {
	t.Parallel()
	dir, keys := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("one "+strings.Repeat("5a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	succeed(t, "create", "-key-file", keys, dir)
	succeed(t, "set", "-key-file", keys, dir, "k", "a secret value")
	fail(t, exitError, "needs the flag -key-file", "salvage", dir, dir+"-new")
	succeed(t, "salvage", "-key-file", keys, dir, dir+"-new")
	expect(t, "a secret value", "get", "-key-file", keys, dir+"-new", "k")
	succeed(t, "set", "-key-file", keys, dir, "long", strings.Repeat("long", 2000))
	succeed(t, "compact", "-key-file", keys, dir)
	for pattern, want := range map[string]string{"*.log": "longlong", "*.table": "a secret value", "*.values": "record", "MANIFEST-*": "add table"} {
		name := filesIn(t, dir, pattern)[0]
		fail(t, exitError, "needs the flag -key-file", "dump", name)
		if out := succeed(t, "dump", "-key-file", keys, name); !strings.Contains(out, want) {
			t.Errorf("dump of %s printed %q", name, out)
		}
	}
	for _, args := range [][]string{{"dump"}, {"dump", "-key-file", keys}} {
		out := succeed(t, append(args, filepath.Join(dir, "KEYS"))...)
		if !strings.Contains(out, `master="one"`) || strings.Contains(out, "5a5a") {
			t.Errorf("dump of KEYS printed %q", out)
		}
	}
}

func TestDump_PrintsEveryFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	fill(t, dir)
	succeed(t, "compact", dir)
	succeed(t, "set", dir, "last", "words")
	for pattern, wants := range map[string][]string{
		"MANIFEST-*": {"edit", "add-table", "span", "keyspace"},
		"*.table":    {"section", "properties", "block", "entry"},
		"*.values":   {"value-file", "record"},
		"*.log":      {"header", "record"},
		"LOCK":       {"lock"},
	} {
		files := filesIn(t, dir, pattern)
		text := succeed(t, "dump", files[0])
		lines := succeed(t, "dump", "-json", files[0])
		kinds := map[string]bool{}
		for line := range strings.Lines(lines) {
			var object map[string]any
			if err := json.Unmarshal([]byte(line), &object); err != nil {
				t.Fatalf("%s: %v in %s", files[0], err, line)
			}
			kinds[strings.ReplaceAll(object["line"].(string), " ", "-")] = true
		}
		for _, want := range wants {
			if !kinds[want] {
				t.Errorf("dump -json %s has no line %q", pattern, want)
			}
		}
		if strings.Count(text, "\n") != strings.Count(lines, "\n") || strings.Contains(text, `checksum="bad"`) {
			t.Errorf("dump %s printed %q", pattern, text)
		}
	}
	table := filesIn(t, dir, "*.table")[0]
	spoil(t, table)
	if out := succeed(t, "dump", table); !strings.Contains(out, `"bad"`) {
		t.Errorf("dump of a damaged table printed %q", out)
	}
	other := filepath.Join(dir, "..", "other")
	if err := os.WriteFile(other, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	fail(t, exitError, "no file of a database", "dump", other)
}

// dumpedLines returns how many lines of each kind the dump of a file has.
func dumpedLines(t *testing.T, name string) map[string]int {
	t.Helper()
	kinds := map[string]int{}
	text, lines := succeed(t, "dump", name), succeed(t, "dump", "-json", name)
	for line := range strings.Lines(lines) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatalf("%s: %v in %s", name, err, line)
		}
		kinds[object["line"].(string)]++
	}
	if strings.Count(text, "\n") != strings.Count(lines, "\n") {
		t.Errorf("dump %s printed %q and %q", name, text, lines)
	}
	return kinds
}

func TestDump_PrintsBackupsAndSortedFiles(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, store := filepath.Join(at, "db"), filepath.Join(at, "store")
	full, later, long := filepath.Join(at, "full"), filepath.Join(at, "later"), filepath.Join(at, "long")
	if err := os.WriteFile(long, []byte("long\t"+strings.Repeat("x", 1_000_000)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	succeed(t, "create", dir)
	succeed(t, "load", dir, long)
	succeed(t, "set", dir, "a", "one")
	succeed(t, "backup", dir, full)
	succeed(t, "set", dir, "b", "two")
	succeed(t, "backup", "-since", full, dir, later)
	firstBackup(t, dir, store)
	for _, x := range []struct {
		name string
		want map[string]int
	}{
		{full, map[string]int{"backup": 1, "keyspace": 1, "entry": 2, "end": 1}},
		{later, map[string]int{"backup": 1, "keyspace": 1, "entry": 1, "unchanged": 2, "end": 1}},
		{packed(t, "a\t1\nb\t2\n"), map[string]int{"sorted entries": 1, "entry": 2, "end": 1}},
		{filesIn(t, filepath.Join(store, "lists"), "*")[0], map[string]int{"file backup": 1, "id": 1, "end": 1, "checksum": 1}},
	} {
		got := dumpedLines(t, x.name)
		if x.want["checksum"] == 1 {
			x.want["file"] = max(2, got["file"]) // a manifest, and tables
		}
		if !maps.Equal(got, x.want) {
			t.Errorf("dump of %s has the lines %v, want %v", x.name, got, x.want)
		}
	}
	text := succeed(t, "dump", "-value-bytes", "3", full)
	for _, want := range []string{`keyspace=0 key="a" length=3 value="one"`, `key="long" length=1000000 parts=2 value="xxx"`, `end versions=2 unchanged=0 checksum="ok"`} {
		if !strings.Contains(text, want) {
			t.Errorf("dump of the backup lacks %s:\n%s", want, text)
		}
	}
	list := filesIn(t, filepath.Join(store, "lists"), "*")[0]
	if text := succeed(t, "dump", list); !strings.HasSuffix(text, "checksum=\"ok\"\n") {
		t.Errorf("dump of the list printed %q", text)
	}
	spoil(t, list)
	if text := succeed(t, "dump", list); !strings.HasSuffix(text, "checksum=\"bad\"\n") {
		t.Errorf("dump of the damaged list printed %q", text)
	}
}

func TestCheck_RepairRebuildsAHashIndex(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	fill(t, dir)
	succeed(t, "compact", dir)
	name := filesIn(t, dir, "*.table")[0]
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(succeed(t, "dump", "-json", name)) {
		var section struct {
			Name           string
			Offset, Length int
		}
		if json.Unmarshal([]byte(line), &section) == nil && section.Name == "hash index" {
			content[section.Offset+section.Length/2] ^= 0xff
		}
	}
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	want := succeed(t, "scan", "-hex", dir)
	fail(t, exitError, "problems in", "check", "-quiet", dir)
	out := succeed(t, "check", "-repair", dir)
	if !strings.Contains(out, "repaired: hash index of "+filepath.Base(name)) || !strings.HasSuffix(out, "no problems\n") {
		t.Errorf("check -repair printed %q", out)
	}
	expect(t, want, "scan", "-hex", dir)
	fail(t, exitError, "there is no database", "check", "-repair", dir+"-none")
}
