package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// packed packs lines into a file, and returns its path.
func packed(t *testing.T, lines string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if out, errOut, code := stoatCommand(t.Context(), lines, "pack", "-", name); code != exitOK || !strings.HasSuffix(out, " keys packed\n") {
		t.Fatalf("exit code %d, printed %q, errors %q", code, out, errOut)
	}
	return name
}

func TestIngest_TakesPackedFiles(t *testing.T) {
	t.Parallel()
	dir := loaded(t, "a\told\nz\tlast\n")
	second, first := packed(t, "m\t1\nn\\x00\t2\n"), packed(t, "a\tnew\nb\t\n")
	if out := succeed(t, "ingest", dir, second, first); out != "4 keys ingested\n" {
		t.Errorf("ingest printed %q", out)
	}
	if got, want := succeed(t, "scan", dir), "a\tnew\nb\t\nm\t1\nn\\x00\t2\nz\tlast\n"; got != want {
		t.Errorf("the database has %q, want %q", got, want)
	}
}

func TestIngest_FailuresAreExplained(t *testing.T) {
	t.Parallel()
	dir, file := loaded(t, "a\told\n"), packed(t, "a\tnew\nb\t1\n")
	content, err := os.ReadFile(file)
	cut := file + "2"
	if err == nil {
		err = os.WriteFile(cut, content[:len(content)-1], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ args, says string }{
		{"ingest " + dir + " " + file + " " + file, "overlap"},
		{"ingest " + dir + " " + cut, "corrupt data in file2"},
		{"ingest " + dir + " " + file + "none", "filenone"},
		{"pack " + file + "none " + cut + "3", "filenone"},
		{"pack " + os.DevNull + " " + file, "exists"},
	} {
		_, errOut, code := stoatCommand(t.Context(), "", strings.Split(x.args, " ")...)
		if code != exitError || !strings.Contains(errOut, x.says) {
			t.Errorf("stoat %s: exit code %d, %q", x.args, code, errOut)
		}
	}
	if _, errOut, code := stoatCommand(t.Context(), "b\t1\na\t2\n", "pack", "-", cut+"4"); code != exitError || !strings.Contains(errOut, "comes after the greater key") {
		t.Errorf("lines in another order: exit code %d, %q", code, errOut)
	}
	if _, err := os.Stat(cut + "4"); !os.IsNotExist(err) {
		t.Errorf("a failed pack left a file: %v", err)
	}
	if got := succeed(t, "scan", dir); got != "a\told\n" {
		t.Errorf("the database has %q", got)
	}
}

func TestPack_InterruptedWhileItWaitsForInputLeavesNoFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "file")
	ctx, cancel := context.WithCancel(t.Context())
	in, input := io.Pipe()
	defer func() { _ = input.Close() }()
	go func() {
		_, _ = input.Write([]byte("a\t1\n")) // returns when the command has read the line
		cancel()
	}()
	var out, errOut bytes.Buffer
	code := run(ctx, []string{"pack", "-", name}, console{in, &out, &errOut})
	if code != exitInterrupted || errOut.String() != "stoat: interrupted\n" {
		t.Errorf("exit code %d, errors %q", code, errOut.String())
	}
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("an interrupted pack left a file: %v", err)
	}
}
