package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
)

func TestBackup_RestoresAChain(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, first, second, copied := filepath.Join(at, "db"), filepath.Join(at, "1"), filepath.Join(at, "2"), filepath.Join(at, "copy")
	fill(t, dir)
	if out := succeed(t, "backup", dir, first); !strings.Contains(out, "full backup at version") {
		t.Errorf("backup printed %q", out)
	}
	expect(t, "", "set", dir, "new", "value")
	expect(t, "", "del", dir, "k\x01")
	if out := succeed(t, "backup", "-since", first, dir, second); !strings.Contains(out, "changes after version") || !strings.Contains(out, ": 1 versions of keys, 99 keys unchanged") {
		t.Errorf("backup printed %q", out)
	}
	if out := succeed(t, "verify-backup", first, second); strings.Count(out, "\n") != 2 {
		t.Errorf("verify-backup printed %q", out)
	}
	if out := succeed(t, "restore", first, second, copied); !strings.HasPrefix(out, "restored version ") {
		t.Errorf("restore printed %q", out)
	}
	if got, want := succeed(t, "scan", copied), succeed(t, "scan", dir); got != want {
		t.Errorf("the copy has %d bytes of keys and values, want %d", len(got), len(want))
	}
	succeed(t, "check", copied)
	// The same through pipes. The database has not changed.
	full, errOut, code := stoatCommand(t.Context(), "", "backup", dir, "-")
	if code != exitOK {
		t.Fatal(errOut)
	}
	if out, errOut, code := stoatCommand(t.Context(), full, "restore", "-", copied+"2"); code != exitOK {
		t.Fatal(out, errOut)
	}
	if got, want := succeed(t, "scan", copied+"2"), succeed(t, "scan", dir); got != want {
		t.Errorf("the second copy has %d bytes of keys and values, want %d", len(got), len(want))
	}
}

func TestBackup_BesideAProcessThatWrites(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, copied := filepath.Join(at, "db"), filepath.Join(at, "copy")
	db, err := stoat.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var files []string
	for i, value := range []string{"one", "two"} {
		err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), []byte(value)) }, stoat.WithDurability(stoat.Buffered))
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"backup"}
		if i > 0 {
			args = append(args, "-since", files[i-1])
		}
		files = append(files, filepath.Join(at, value))
		succeed(t, append(args, dir, files[i])...)
	}
	succeed(t, append(append([]string{"restore"}, files...), copied)...)
	expect(t, "two", "get", copied, "key")
}

// whenItPrints runs a command line, and calls fn when it first prints. It returns what it printed.
func whenItPrints(t *testing.T, fn func(), args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	var once sync.Once
	printed := writerFunc(func(p []byte) (int, error) {
		once.Do(fn)
		return out.Write(p)
	})
	if code := run(t.Context(), args, console{strings.NewReader(""), printed, &errOut}); code != exitOK {
		t.Fatalf("stoat %q: exit code %d, errors %q", args, code, &errOut)
	}
	return out.String()
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestBackup_LetsAWriterStartMeanwhile(t *testing.T) {
	t.Parallel()
	dir, copied := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "copy")
	fill(t, dir)
	before := succeed(t, "scan", dir)
	full := whenItPrints(t, func() {
		expect(t, "", "set", dir, "new", "value")
		succeed(t, "compact", dir)
	}, "backup", dir, "-")
	if _, errOut, code := stoatCommand(t.Context(), full, "restore", "-", copied); code != exitOK {
		t.Fatal(errOut)
	}
	if got := succeed(t, "scan", copied); got != before {
		t.Errorf("the copy has %d bytes of keys and values, want %d", len(got), len(before))
	}
}

func TestCheck_KeepsWritersOutAndSoSeesUnreferencedFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	fill(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "999999.table"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := whenItPrints(t, func() {
		fail(t, exitError, "another process uses the database in "+dir, "set", dir, "new", "value")
	}, "check", dir)
	if !strings.Contains(out, "warning: 999999.table is unreferenced") {
		t.Errorf("check printed %q", out)
	}
}

// crashed returns a database whose last writer has crashed. The end of its log may not be
// durable.
func crashed(t *testing.T) string {
	t.Helper()
	at := t.TempDir()
	dir, copied := filepath.Join(at, "db"), filepath.Join(at, "crashed")
	db, err := stoat.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), []byte("value")) }, stoat.WithDurability(stoat.Buffered))
	if err == nil {
		err = os.CopyFS(copied, os.DirFS(dir))
	}
	if err != nil {
		t.Fatal(err)
	}
	return copied
}

func TestBackup_AfterACrashLetsAWriterStartMeanwhile(t *testing.T) {
	t.Parallel()
	dir := crashed(t)
	whenItPrints(t, func() { expect(t, "", "set", dir, "new", "value") }, "backup", dir, "-")
	expect(t, "value", "get", dir, "new")
}

func TestBackup_AfterACrashHasTheEndOfTheLogAndMakesItDurable(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, file, copied := crashed(t), filepath.Join(at, "file"), filepath.Join(at, "copy")
	unproven := func() error {
		db, err := stoat.Open(dir, &stoat.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		return errors.Join(db.Sync(), db.Close())
	}
	if err := unproven(); !errors.Is(err, stoat.ErrReadOnly) {
		t.Fatalf("before the backup, Sync returned %v", err)
	}
	succeed(t, "backup", dir, file)
	if err := unproven(); err != nil {
		t.Errorf("after the backup, Sync returned %v", err)
	}
	succeed(t, "restore", file, copied)
	expect(t, "value", "get", copied, "key")
}

func TestBackup_FailuresAreExplained(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, first, second, copied := filepath.Join(at, "db"), filepath.Join(at, "1"), filepath.Join(at, "2"), filepath.Join(at, "copy")
	fill(t, dir)
	succeed(t, "backup", dir, first)
	expect(t, "", "set", dir, "new", "value")
	succeed(t, "backup", "-since", first, dir, second)
	cut := filepath.Join(at, "cut")
	content, err := os.ReadFile(second)
	if err == nil {
		err = os.WriteFile(cut, content[:len(content)-1], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args string
		says string
	}{
		{"backup " + dir + " " + first, "exists"},
		{"backup -since " + cut + " " + dir + " " + filepath.Join(at, "3"), "corrupt"},
		{"restore " + second + " " + copied, "want a full backup"},
		{"restore " + second + " " + first + " " + copied, "do not belong together"},
		{"restore " + first + " " + cut + " " + copied, "corrupt data in " + cut},
		{"restore " + first + " " + dir, "exists"},
		{"restore -version 1 " + first + " " + copied, "none has version 1"},
		{"verify-backup " + cut, "corrupt"},
		{"verify-backup " + second + " " + first, first + " holds the changes since version 0, but " + second + " ends at version"},
		{"verify-backup " + filepath.Join(at, "none"), "none"},
	} {
		_, errOut, code := stoatCommand(t.Context(), "", strings.Split(x.args, " ")...)
		if code != exitError || !strings.Contains(errOut, x.says) {
			t.Errorf("stoat %s: exit code %d, %q", x.args, code, errOut)
		}
	}
	if _, err := os.Stat(filepath.Join(at, "3")); !os.IsNotExist(err) {
		t.Errorf("a backup that failed is there: %v", err)
	}
	if _, err := os.Stat(copied); !os.IsNotExist(err) {
		t.Errorf("a restore that failed left a database: %v", err)
	}
}

// Two copies of one database go different ways. By their numbers, their backups fit.
func TestVerifyBackup_FindsABackupThatLacksWhatTheNextOneNeeds(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, twin, first, second := filepath.Join(at, "db"), filepath.Join(at, "twin"), filepath.Join(at, "1"), filepath.Join(at, "2")
	succeed(t, "create", dir)
	if err := os.CopyFS(twin, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	succeed(t, "set", dir, "a", "of the first")
	succeed(t, "set", twin, "b", "of the second")
	succeed(t, "backup", dir, first)
	succeed(t, "set", twin, "c", "of the second")
	succeed(t, "backup", "-since", first, twin, second)
	succeed(t, "verify-backup", first)
	succeed(t, "verify-backup", second)
	fail(t, exitError, "corrupt data in "+first, "verify-backup", first, second)
	fail(t, exitError, "corrupt data in "+first, "restore", first, second, filepath.Join(at, "copy"))
}
