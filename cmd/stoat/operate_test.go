package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
)

// fill creates a database with tables, value files and a log.
func fill(t *testing.T, dir string) {
	t.Helper()
	db, err := stoat.Open(dir, &stoat.Options{MemtableSize: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if err := db.Update(func(tx *stoat.Txn) error { return tx.Set([]byte{'k', byte(i % 100)}, make([]byte, 10*i)) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCheck_SoundAndDamagedDatabase(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	fill(t, dir)
	if out := succeed(t, "check", dir); !strings.HasSuffix(out, ": no problems\n") {
		t.Errorf("check printed %q", out)
	}
	expect(t, "", "check", "-quiet", dir)
	tables, err := filepath.Glob(filepath.Join(dir, "*.table"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables: %v, %v", tables, err)
	}
	content, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/3] ^= 1
	if err := os.WriteFile(tables[0], content, 0o600); err != nil {
		t.Fatal(err)
	}
	out, errOut, code := stoatCommand(t.Context(), "", "check", dir)
	if code != exitError || !strings.Contains(out, filepath.Base(tables[0])) || !strings.Contains(errOut, "problems in "+dir) {
		t.Errorf("exit code %d, printed %q, errors %q", code, out, errOut)
	}
}

// Scan prints the entries it can read, and no line for the others.
func TestScan_PrintsNoKeyWithAnUnreadableValue(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	fill(t, dir)
	expect(t, "", "set", dir, "a", "with its value in the table")
	files, err := filepath.Glob(filepath.Join(dir, "*.values"))
	if err != nil || len(files) == 0 {
		t.Fatalf("value files: %v, %v", files, err)
	}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		content[len(content)/2] ^= 1
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, errOut, code := stoatCommand(t.Context(), "", "scan", dir)
	if code != exitError || !strings.Contains(errOut, "corrupt") {
		t.Errorf("exit code %d, errors %q", code, errOut)
	}
	if !strings.HasPrefix(out, "a\twith") || strings.Contains(out, "\t\n") {
		t.Errorf("printed %.200q, errors %q", out, errOut)
	}
}

func TestCheckpoint_MakesAReadableCopy(t *testing.T) {
	t.Parallel()
	dir, to := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "copy")
	fill(t, dir)
	expect(t, "", "checkpoint", dir, to)
	if got, want := succeed(t, "scan", to), succeed(t, "scan", dir); got != want {
		t.Errorf("the copy has %d bytes of keys and values, want %d", len(got), len(want))
	}
	fail(t, exitError, "already exists", "checkpoint", dir, to)
	succeed(t, "check", to)
}

func TestCompact_PrintsTheSizes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	fill(t, dir)
	if out := succeed(t, "compact", dir); !strings.HasPrefix(out, "tables and values: ") {
		t.Errorf("compact printed %q", out)
	}
	if out := succeed(t, "collect", dir); !strings.HasPrefix(out, "tables and values: ") {
		t.Errorf("collect printed %q", out)
	}
	succeed(t, "compact", "-hex", "-from", "6b00", "-to", "6b10", dir)
	fail(t, exitUsage, "-from: encoding/hex", "compact", "-hex", "-from", "x", dir)
	succeed(t, "check", dir)
}

func TestStats_PrintsSizeAndStructure(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	fill(t, dir)
	out := succeed(t, "stats", dir)
	for _, want := range []string{"version", "size on disk", "tables", "level", "value files", "only in the log"} {
		if !strings.Contains(out, want) {
			t.Errorf("stats lacks %q:\n%s", want, out)
		}
	}
}

func TestOperations_CreateNoDatabase(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	for _, command := range []string{"check", "stats", "compact"} {
		fail(t, exitError, "there is no directory "+missing, command, missing)
	}
	fail(t, exitError, "there is no directory "+missing, "checkpoint", missing, missing+"2")
}

func TestBytesText_Units(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 12_345_678: "12.3 MB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
