package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/vfs"
)

// fill creates a database with tables, value files and a log.
func fill(t *testing.T, dir string) {
	t.Helper()
	db, err := stoat.Open(dir, &stoat.Options{MemtableSize: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte{'k', byte(i % 100)}, make([]byte, 10*i)) }); err != nil {
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

// A value file is damaged, and a table cannot be opened.
func TestCheck_ThatCannotFinishSaysSoAfterAProblem(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	fill(t, dir)
	succeed(t, "compact", dir)
	values := filesIn(t, dir, "*.values")[0]
	spoil(t, values)
	table := filesIn(t, dir, "*.table")[0]
	if err := errors.Join(os.Remove(table), os.Mkdir(table, 0o700)); err != nil {
		t.Fatal(err)
	}
	out, errOut, code := stoatCommand(t.Context(), "", "check", dir)
	if code != exitError || !strings.Contains(out, filepath.Base(values)) || !strings.Contains(errOut, "problems in "+dir+": 1 so far") ||
		!strings.Contains(errOut, "did not finish: ") || !strings.Contains(errOut, filepath.Base(table)) {
		t.Errorf("exit code %d, printed %q, errors %q", code, out, errOut)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	interrupted := problemsError(dir, 1, fmt.Errorf("check: %w", ctx.Err()))
	if code := exitCode(ctx, console{err: io.Discard}, interrupted); code != exitInterrupted {
		t.Errorf("interrupted after a problem: exit code %d, want %d", code, exitInterrupted)
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

// Every command that writes keeps the settings of the database.
func TestSettings_CommandsKeepThem(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	db, err := stoat.Open(dir, &stoat.Options{NumVersions: 10, Compression: stoat.CompressionFast})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), []byte{byte(i)}) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	succeed(t, "set", dir, "other", "value")
	succeed(t, "compact", dir)
	succeed(t, "collect", dir)
	succeed(t, "del", dir, "other")
	succeed(t, "checkpoint", dir, copied)
	succeed(t, "compact", copied)
	for _, dir := range []string{dir, copied} {
		db, err := stoat.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		err = db.View(func(tx stoat.Txn) error {
			it := tx.Iterator(stoat.IterOptions{AllVersions: true, Prefix: []byte("k")})
			defer it.Close()
			for it.Next() {
				n++
			}
			return it.Err()
		})
		if err != nil || n != 10 {
			t.Errorf("%s: %d versions are left, want 10: %v", dir, n, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStats_PrintsSizeAndStructure(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	fill(t, dir)
	out := succeed(t, "stats", dir)
	for _, want := range []string{"format", "features", "settings\n", "compression", "none", "version", "size on disk", "tables", "level", "value files", "only in the log"} {
		if !strings.Contains(out, want) {
			t.Errorf("stats lacks %q:\n%s", want, out)
		}
	}
}

func TestUpgrade_SaysWhatThereIsToDo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	fail(t, exitError, "there is no database in "+dir, "upgrade", dir)
	fill(t, dir)
	expect(t, "already at format 1\nfeatures\tnone\n", "upgrade", dir)
	fail(t, exitUsage, "takes DIR", "upgrade")
	succeed(t, "check", dir)

	// Without settings, as an early stoat wrote it.
	bare := filepath.Join(t.TempDir(), "bare")
	if err := os.Mkdir(bare, 0o700); err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Create(vfs.OS(), bare, manifest.State{FormatVersion: manifest.FormatVersion}, func() uint64 { return 2 }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	expect(t, "already at format 1\nstored the settings in the database\nfeatures\tnone\n", "upgrade", bare)
	expect(t, "already at format 1\nfeatures\tnone\n", "upgrade", bare)
}

// A database with a feature of a later stoat.
func TestUpgrade_NamesAFeatureThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	dir := create(t)
	m, _, err := manifest.Load(vfs.OS(), dir, false, func() uint64 { return 2 }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Append(manifest.Edit{RequiredFeatures: []string{"teleport"}}); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"upgrade", "stats", "check", "compact"} {
		fail(t, exitError, `the feature "teleport", which this version does not know`, command, dir)
	}
}

func TestBytesText_Units(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 12_345_678: "12.3 MB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestStats_SkipsAFileThatAWriterRemovesMeanwhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("four"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err == nil {
		err = os.Remove(filepath.Join(dir, "b"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if size, err := sumOf(entries); size != 8 || err != nil {
		t.Errorf("the size is %d: %v, want 8", size, err)
	}
	if _, err := sizeOf(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the size of no directory: %v", err)
	}
}
