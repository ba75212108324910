package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/cmd/stoat/internal/bench"
)

// stoatCommand runs a command line in this process and returns what it
// printed and its exit code.
func stoatCommand(ctx context.Context, input string, args ...string) (out, errOut string, code int) {
	var o, e bytes.Buffer
	code = run(ctx, args, console{strings.NewReader(input), &o, &e})
	return o.String(), e.String(), code
}

// succeed runs a command line that must succeed and print no error.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	out, errOut, code := stoatCommand(t.Context(), "", args...)
	if code != exitOK || errOut != "" {
		t.Fatalf("stoat %q: exit code %d, errors %q", args, code, errOut)
	}
	return out
}

// expect runs a command line that must print exactly want.
func expect(t *testing.T, want string, args ...string) {
	t.Helper()
	if got := succeed(t, args...); got != want {
		t.Errorf("stoat %q printed %q, want %q", args, got, want)
	}
}

// fail runs a command line that must fail with a code and an error text that
// contains want.
func fail(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	_, errOut, got := stoatCommand(t.Context(), "", args...)
	if got != code || !strings.Contains(errOut, want) {
		t.Errorf("stoat %q: exit code %d, errors %q, want %d and %q", args, got, errOut, code, want)
	}
}

func TestCommands_SetGetDelScan(t *testing.T) {
	t.Parallel()
	dir := create(t)
	expect(t, "", "set", dir, "ann", "1")
	expect(t, "", "set", dir, "bob", "2")
	expect(t, "", "set", dir, "bus", "3")
	expect(t, "", "set", dir, "cat", "4")
	expect(t, "2", "get", dir, "bob")
	expect(t, "ann\t1\nbob\t2\nbus\t3\ncat\t4\n", "scan", dir)
	expect(t, "cat\t4\nbus\t3\nbob\t2\nann\t1\n", "scan", "-reverse", dir)
	expect(t, "bob\nbus\n", "scan", "-keys", "-prefix", "b", dir)
	expect(t, "bob\t2\nbus\t3\n", "scan", "-from", "b", "-to", "cat", dir)
	expect(t, "ann\nbob\n", "scan", "-keys", "-limit", "2", dir)
	expect(t, "cat\n", "scan", "-keys", "-limit", "1", "-reverse", dir)
	expect(t, "", "del", dir, "bob", "cat", "absent")
	expect(t, "ann\t1\nbus\t3\n", "scan", dir)
	fail(t, exitError, "stoat: there is no key bob\n", "get", dir, "bob")
}

func TestDel_PrefixesAndRanges(t *testing.T) {
	t.Parallel()
	dir := create(t)
	for _, key := range []string{"ann", "bob", "bus", "cat", "dog", "eel"} {
		expect(t, "", "set", dir, key, "1")
	}
	expect(t, "", "del", "-prefix", dir, "b", "zebra")
	expect(t, "ann\ncat\ndog\neel\n", "scan", "-keys", dir)
	expect(t, "", "del", "-range", dir, "cat", "eel")
	expect(t, "ann\neel\n", "scan", "-keys", dir)
	fail(t, exitUsage, "-range takes two keys, got 1", "del", "-range", dir, "a")
	fail(t, exitUsage, "use either -prefix or -range, not both", "del", "-range", "-prefix", dir, "a", "b")
	fail(t, exitUsage, "-prefix with an empty KEY", "del", "-prefix", dir, "")
	expect(t, "", "del", "-range", dir, "", "")
	expect(t, "", "scan", "-keys", dir)
}

func TestFlags_AfterTheDirectoryAreRefusedAndDeleteNothing(t *testing.T) {
	t.Parallel()
	dir := create(t)
	for _, key := range []string{"a", "b", "user:", "user:1", "-hex"} {
		expect(t, "", "set", "--", dir, key, "1")
	}
	before := succeed(t, "scan", dir)
	for _, args := range [][]string{
		{"del", dir, "-prefix", "user:"}, {"del", dir, "user:", "--prefix"}, {"del", dir, "-prefix=true", "user:"},
		{"del", dir, "-range", "a", "c"}, {"del", dir, "-hex", "61"}, {"del", dir, "-h"}, {"del", dir, "a", "--help"},
		{"set", dir, "-hex", "61"}, {"set", dir, "a", "-ttl=1s"}, {"get", dir, "-hex"},
	} {
		fail(t, exitUsage, " must precede DIR KEY", args...)
	}
	if after := succeed(t, "scan", dir); after != before {
		t.Errorf("the keys were %q, and are %q", before, after)
	}
	expect(t, "1", "get", "--", dir, "-hex")
	expect(t, "", "set", dir, "-5", "-6") // no flags
	expect(t, "-6", "get", dir, "-5")
	expect(t, "", "del", "-prefix", "--", dir, "-hex")
	expect(t, "", "del", dir, "a", "-5", "-")
	expect(t, "b\nuser:\nuser:1\n", "scan", "-keys", dir)
	missing := filepath.Join(t.TempDir(), "missing")
	fail(t, exitUsage, "the flag -hex must precede DIR KEY VALUE", "set", missing, "-hex", "61")
	if _, err := os.Stat(missing); !os.IsNotExist(err) {
		t.Errorf("a directory was created: %v", err)
	}
}

func TestHex_IsForAllBytes(t *testing.T) {
	t.Parallel()
	dir := create(t)
	expect(t, "", "set", "-hex", dir, "00ff", "0a5c09")
	expect(t, "0a5c09\n", "get", "-hex", dir, "00ff")
	expect(t, "00ff\t0a5c09\n", "scan", "-hex", dir)
	expect(t, `\x00\xff`+"\t"+`\n\\\t`+"\n", "scan", dir)
	expect(t, "00ff\n", "scan", "-hex", "-keys", "-prefix", "00", dir)
	fail(t, exitUsage, "KEY: encoding/hex", "get", "-hex", dir, "0g")
	fail(t, exitUsage, "VALUE: encoding/hex", "set", "-hex", dir, "00", "0")
	fail(t, exitUsage, "-from: encoding/hex", "scan", "-hex", "-from", "x", dir)
	expect(t, "", "del", "-hex", dir, "00ff")
	expect(t, "", "scan", dir)
}

func TestSet_ValueFromStandardInputIsUnchanged(t *testing.T) {
	t.Parallel()
	dir := create(t)
	const value = "two\nlines \x00 and a zero\n"
	if _, errOut, code := stoatCommand(t.Context(), value, "set", dir, "k", "-"); code != exitOK {
		t.Fatalf("exit code %d, errors %q", code, errOut)
	}
	expect(t, value, "get", dir, "k")
	if _, errOut, code := stoatCommand(t.Context(), "0102\n", "set", "-hex", dir, "00", "-"); code != exitOK {
		t.Fatalf("exit code %d, errors %q", code, errOut)
	}
	expect(t, "0102\n", "get", "-hex", dir, "00")
}

func TestGet_PrintsALargeValueOfSetInPieces(t *testing.T) {
	t.Parallel()
	dir := create(t)
	const size = 64 << 20
	var errOut strings.Builder
	written, read := sha256.New(), sha256.New()
	value := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{1}), size), written)
	if code := run(t.Context(), []string{"set", dir, "k", "-"}, console{value, io.Discard, &errOut}); code != exitOK {
		t.Fatalf("exit code %d, errors %q", code, &errOut)
	}
	out := &largestWrite{to: read}
	if code := run(t.Context(), []string{"get", dir, "k"}, console{nil, out, &errOut}); code != exitOK {
		t.Fatalf("exit code %d, errors %q", code, &errOut)
	}
	if !bytes.Equal(written.Sum(nil), read.Sum(nil)) {
		t.Error("get prints another value than set has read")
	}
	if out.largest > 1<<20 {
		t.Errorf("get printed %d bytes at once", out.largest)
	}
}

// largestWrite remembers the length of the longest write to an io.Writer.
type largestWrite struct {
	to      io.Writer
	largest int
}

func (w *largestWrite) Write(b []byte) (int, error) {
	w.largest = max(w.largest, len(b))
	return w.to.Write(b)
}

func TestScan_PrintedTextIsUnambiguous(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":      "plain",
		"größe":      "größe",
		`say "hi"`:   `say "hi"`,
		`back\slash`: `back\\slash`,
		`\"`:         `\\"`,
		"tab\tnew\n": `tab\tnew\n`,
		"\xff\x00":   `\xff\x00`,
	} {
		if got := string(new(textFormat).encode(nil, []byte(in))); got != want {
			t.Errorf("%q is printed as %s, want %s", in, got, want)
		}
	}
}

func TestSet_TTLExpires(t *testing.T) {
	t.Parallel()
	dir := create(t)
	expect(t, "", "set", "-ttl", "24h", dir, "k", "v")
	expect(t, "v", "get", dir, "k")
	expect(t, "", "set", "-ttl", "20ms", dir, "gone", "v")
	for code := exitOK; code == exitOK; {
		_, _, code = stoatCommand(t.Context(), "", "get", dir, "gone")
	}
	fail(t, exitError, "there is no key gone", "get", dir, "gone")
	fail(t, exitUsage, "-ttl is -1s", "set", "-ttl", "-1s", dir, "k", "v")
}

// create makes a database in a directory that does not exist yet.
func create(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db")
	expect(t, "", "create", dir)
	return dir
}

func TestCreate_WithoutItsKeyFileLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	fail(t, exitError, "stoat: the key file "+dir+"-keys: ", "create", "-key-file", dir+"-keys", dir)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the command created a directory: %v", err)
	}
}

func TestCreate_MakesAnEmptyDatabaseOnce(t *testing.T) {
	t.Parallel()
	dir := create(t)
	expect(t, "", "scan", dir)
	expect(t, "", "set", dir, "k", "v")
	fail(t, exitError, "stoat: there is a database in "+dir+" already\n", "create", dir)
	if runtime.GOOS == "linux" { // no directory can be made in /proc
		fail(t, exitError, "stoat: open /proc/stoat: mkdir /proc/stoat: ", "create", "/proc/stoat")
	}
	expect(t, "v", "get", dir, "k")
}

func TestOpen_OnlyCreateMakesADatabase(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	missing := filepath.Join(empty, "missing")
	onDatabase := func(dir string) [][]string {
		return [][]string{
			{"get", dir, "k"}, {"set", dir, "k", "v"}, {"scan", dir}, {"del", dir, "k"}, {"compact", dir}, {"collect", dir},
			{"check", dir}, {"stats", dir}, {"checkpoint", dir, missing + "2"},
		}
	}
	for _, args := range onDatabase(missing) {
		fail(t, exitError, "stoat: there is no database in "+missing+"; 'stoat create' makes one\n", args...)
	}
	for _, files := range []int{0, 1} { // files that are not of a database
		for _, args := range onDatabase(empty) {
			fail(t, exitError, "stoat: there is no database in "+empty+"; 'stoat create' makes one\n", args...)
		}
		if left, err := os.ReadDir(empty); err != nil || len(left) != files {
			t.Errorf("left behind: %v, %v", left, err)
		}
		if err := os.WriteFile(filepath.Join(empty, "letter"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpen_LockedDatabaseIsExplained(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	db, err := stoat.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	fail(t, exitError, "another process uses the database in "+dir, "compact", dir)
}

func TestRead_BesideAProcessThatWrites(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	db, err := stoat.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i, value := range []string{"one", "two"} {
		err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), []byte(value)) })
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			want string
			args []string
		}{
			{value, []string{"get", dir, "key"}},
			{value, []string{"scan", dir}},
			{"version", []string{"stats", dir}},
			{fmt.Sprintf("%d transactions in the log: no problems", i+1), []string{"check", dir}},
		} {
			if got := succeed(t, c.args...); !strings.Contains(got, c.want) {
				t.Errorf("%q printed %q, want %q", c.args, got, c.want)
			}
		}
	}
}

func TestHelp_NamesTheCommandsThatRunBesideAWriterOrAReader(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir := filepath.Join(at, "db")
	fill(t, dir)
	path := func(name string) string { return filepath.Join(at, name) }
	follow := [][]string{{"get", "-hex", dir, "6b01"}, {"scan", dir}, {"stats", dir}, {"info", dir}, {"estimate", dir}, {"keyspaces", dir}, {"check", dir}, {"backup", dir, "-"}, {"backup-files", dir, path("store")}}
	firstBackup(t, dir, path("store"))
	read := [][]string{{"salvage", dir, path("saved")}}
	alone := [][]string{{"set", dir, "key", "value"}, {"check", "-repair", dir}, {"keyspaces", "-create", "k", dir},
		{"collect", dir}}
	for _, readOnly := range []bool{false, true} {
		db, err := stoat.Open(dir, &stoat.Options{ReadOnly: readOnly})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, args := range follow {
			succeed(t, args...)
		}
		succeed(t, "checkpoint", dir, path(fmt.Sprint("copy", readOnly)))
		for _, args := range alone {
			fail(t, exitError, "another process uses the database in "+dir, args...)
		}
		for _, args := range read {
			if readOnly {
				succeed(t, args...)
			} else {
				fail(t, exitError, "another process uses the database in "+dir, args...)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"get, scan, changes, estimate, info, stats, checkpoint, backup-files, and keyspaces without -create and -drop take no lock", "takes a file descriptor for each value file",
		"check keeps writers out until it ends, and backup does so while it opens the database. salvage always keeps writers out, and lets readers go on.", "check -repair, need the database for themselves",
	} {
		if help := strings.Join(strings.Fields(succeed(t, "help")), " "); !strings.Contains(help, want) {
			t.Errorf("the help lacks %q", want)
		}
	}
}

func TestUsage_WrongCallsAreExplained(t *testing.T) {
	t.Parallel()
	fail(t, exitUsage, "stoat bench ")
	fail(t, exitUsage, "stoat: there is no command \"benhc\"; 'stoat help' lists the commands\n", "benhc")
	fail(t, exitUsage, "stoat get: takes DIR KEY, got 1 arguments\n'stoat help get' explains the command", "get", "dir")
	fail(t, exitUsage, "the flag -limit must precede DIR", "scan", "dir", "-limit", "3")
	fail(t, exitUsage, "flag provided but not defined: -x", "scan", "-x", "dir")
	fail(t, exitUsage, "want a number such as", "bench", "-keys", "many")
	fail(t, exitUsage, "keys is 0, want 1 to", "bench", "-keys", "0")
	fail(t, exitUsage, "-zipf needs -overwrite", "bench", "-zipf", "0.9")
	fail(t, exitUsage, "-readers needs -overwrite", "bench", "-overwrite", "0", "-readers", "3")
	fail(t, exitUsage, "-compact has no effect with -overwrite", "bench", "-overwrite", "1", "-compact")
	fail(t, exitUsage, "-settle has no effect with -overwrite", "bench", "-overwrite", "1", "-settle")
	fail(t, exitUsage, "-read-duration has no effect", "bench", "-overwrite", "1", "-read-duration", "1s")
	fail(t, exitUsage, "rest is -1s, want 0s to 1m0s", "bench", "-overwrite", "1", "-rest", "-1s")
	fail(t, exitUsage, "rest is 2m0s, want 0s to 1m0s", "bench", "-overwrite", "1", "-rest", "2m")
	fail(t, exitUsage, "zipf is NaN", "bench", "-overwrite", "1", "-zipf", "NaN")
	fail(t, exitUsage, "-keep is of no use with -encrypt", "bench", "-keep", "-encrypt")
	fail(t, exitUsage, `takes no arguments, got ["now"]`, "bench", "now")
	fail(t, exitUsage, "stoat: there is no command \"x\"; 'stoat help' lists the commands\n", "help", "x")
	fail(t, exitUsage, "takes DIR, got 2 arguments; it has no flag -n\n", "scan", "dir", "-n")
	fail(t, exitError, "empty key", "set", create(t), "", "v")
	fail(t, exitUsage, "writers is 8, want at most the number of keys, 3", "bench", "-keys", "3", "-overwrite", "9")
	// A variable of a shell that is not set must not mean the working directory, or nothing.
	for _, args := range [][]string{{"get", "", "key"}, {"backup-files", "dir", ""}, {"backups", ""}, {"verify-files", "store", ""},
		{"keyspaces", "-create", "", "dir"}, {"keyspaces", "-drop", "", "dir"}, {"backup", "-since", "", "dir", "file"},
		{"backups", "-delete", "", "store"}, {"scan", "-key-file", "", "dir"}, {"get", "-keyspace", "", "dir", "key"},
		{"del", "-prefix", "-keyspace", "", "dir", "user/"}, {"load", "-keyspace", "", "dir", "file"}, {"configure", "-keyspace", "", "dir"}} {
		fail(t, exitUsage, " is empty", args...)
	}
}

func TestHelp_ListsAndExplainsAllCommands(t *testing.T) {
	t.Parallel()
	list := succeed(t, "help")
	for _, cmd := range commands() {
		if !strings.Contains(list, "stoat "+cmd.name) || !strings.Contains(list, cmd.short) {
			t.Errorf("the list lacks %s:\n%s", cmd.name, list)
		}
		explained := succeed(t, "help", cmd.name)
		if !strings.HasPrefix(explained, "usage: stoat "+cmd.name) {
			t.Errorf("help %s: %q", cmd.name, explained)
		}
	}
	if got := succeed(t, "--help"); got != list {
		t.Errorf("--help prints %q", got)
	}
	if got, want := succeed(t, "scan", "-h"), succeed(t, "help", "scan"); got != want {
		t.Errorf("scan -h prints %q, want %q", got, want)
	}
	for _, want := range []string{"usage: stoat scan [flags] DIR\n", "-limit number", "-hex"} {
		if got := succeed(t, "help", "scan"); !strings.Contains(got, want) {
			t.Errorf("help scan lacks %q:\n%s", want, got)
		}
	}
	if got := succeed(t, "help", "bench"); !strings.Contains(got, "(default 1000000)") {
		t.Errorf("help bench lacks the default of -keys:\n%s", got)
	}
}

func TestVersion_NamesTheToolchain(t *testing.T) {
	t.Parallel()
	if got := succeed(t, "version"); !strings.HasPrefix(got, "stoat ") || !strings.Contains(got, "go1.") {
		t.Errorf("printed %q", got)
	}
}

func TestBench_RunsAndCleansUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cpu, heap := filepath.Join(t.TempDir(), "cpu"), filepath.Join(t.TempDir(), "heap")
	out := succeed(t, "bench", "-dir", dir, "-keys", "1k", "-value-size", "1Ki", "-batch", "100", "-writers", "2", "-encrypt",
		"-read-duration", "2ms", "-commit-duration", "2ms", "-cpuprofile", cpu, "-memprofile", heap)
	for _, want := range []string{"1,000 keys", "values of 1.02 kB", "get, the key exists", "correct answers", "the database is encrypted"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, profile := range []string{cpu, heap} {
		if info, err := os.Stat(profile); err != nil || info.Size() == 0 {
			t.Errorf("profile %s: %v", profile, err)
		}
	}
}

// A correct database gives no wrong answer, so this test makes an error of one
// and checks the printed command line.
func TestBench_WrongAnswerPrintsACommandLineToRepeatIt(t *testing.T) {
	t.Parallel()
	cmd, _ := find("bench")
	dir := filepath.Join(t.TempDir(), "it's here")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-keys", "0.1k", "-value-size", "8", "-read-duration", "1ms", "-commit-duration", "1ms", "-dir", dir},
		{"-seed", "7", "-buffered", "-keys", "0"},
	} {
		c := newCall(cmd, console{strings.NewReader(""), io.Discard, io.Discard})
		_ = runBench(t.Context(), c, args) // defines and parses the flags
		got := c.reproducible(fmt.Errorf("%w: key number 17", bench.ErrWrong))
		want := map[bool]string{
			true: "WRONG ANSWER: key number 17\nreproduce: go run github.com/stoatdb/stoat/cmd/stoat bench" +
				" -commit-duration=1ms '-dir=" + strings.ReplaceAll(dir, "'", `'\''`) + "' -keys=100 -read-duration=1ms -seed=1 -value-size=8",
			false: "WRONG ANSWER: key number 17\nreproduce: go run github.com/stoatdb/stoat/cmd/stoat bench -buffered=true -keys=0 -seed=7",
		}[args[0] == "-keys"]
		if got == nil || got.Error() != want || !errors.Is(got, bench.ErrWrong) {
			t.Errorf("bench %q: %v, want %s", args, got, want)
		}
		if other := c.reproducible(io.ErrUnexpectedEOF); other != io.ErrUnexpectedEOF {
			t.Errorf("an error that is not a wrong answer: %v", other)
		}
	}
}

func TestBench_SeedIsANumberOrDrawn(t *testing.T) {
	t.Parallel()
	fail(t, exitUsage, "or random", "bench", "-seed", "seven")
	out := succeed(t, "bench", "-dir", t.TempDir(), "-keys", "10", "-read-duration", "1ms", "-commit-duration", "1ms", "-seed", "random")
	if _, told, _ := strings.Cut(out, "; seed "); !strings.ContainsAny(told[:1], "0123456789") {
		t.Errorf("the report does not name the drawn seed:\n%s", out)
	}
}

func TestBench_InterruptedSaysSoAndCleansUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, errOut, code := stoatCommand(ctx, "", "bench", "-dir", dir, "-keys", "10k")
	if code != exitInterrupted || errOut != "stoat: interrupted\n" {
		t.Errorf("exit code %d, errors %q", code, errOut)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestBench_MissingDirectoryIsAnError(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	fail(t, exitError, missing, "bench", "-dir", missing, "-keys", "10")
}

func TestNumber_Suffixes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]number{
		"0": 0, "17": 17, "5k": 5000, "5K": 5000, "1.5M": 1_500_000, "2g": 2_000_000_000,
		"4Ki": 4096, "4KiB": 4096, "1Mi": 1 << 20, "128B": 128, "1e3": 1000,
		"1.001k": 1001, "2.01M": 2_010_000, "9007199254740993": 1<<53 + 1, "9223372036854775807": math.MaxInt64, "010": 10,
	} {
		var n number
		if err := n.Set(in); err != nil || n != want {
			t.Errorf("%q is %d, %v, want %d", in, n, err, want)
		}
	}
	for _, bad := range []string{"", "k", "-1", "1.5", "x", "1T", "1e300", "NaN", "Inf", "1kk",
		"1.0001k", "9223372036854775808", "8Gi1", "1/2", "0x10", "1_000"} {
		var n number
		if err := n.Set(bad); err == nil {
			t.Errorf("%q was accepted as %d", bad, n)
		}
	}
}

func TestTerminal_OnlyACharacterDeviceIsOne(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if isTerminal(f) || isTerminal(io.Discard) {
		t.Error("a file or a writer was taken for a terminal")
	}
}

// A fullOutput fails every write, as a full disk does.
type fullOutput struct{}

func (fullOutput) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestOutput_FailedWriteIsAnError(t *testing.T) {
	t.Parallel()
	dir := create(t)
	succeed(t, "set", dir, "key", "value")
	for _, args := range [][]string{
		{"get", dir, "key"}, {"scan", dir}, {"stats", dir}, {"check", dir}, {"compact", dir}, {"collect", dir},
		{"version"}, {"help"}, {"help", "get"},
	} {
		var errOut strings.Builder
		if code := run(t.Context(), args, console{strings.NewReader(""), fullOutput{}, &errOut}); code != exitError || !strings.Contains(errOut.String(), "no space left") {
			t.Errorf("stoat %q: exit code %d, errors %q", args, code, errOut.String())
		}
	}
}

// The exit code and the error are those of the output.
func TestOutput_FailsAfterTheKeysAreStored(t *testing.T) {
	t.Parallel()
	file := packed(t, "a\t1\n")
	for _, to := range []io.Writer{fullOutput{}, closedPipe{}} {
		for _, command := range []string{"load", "ingest"} {
			dir := create(t)
			from := map[string]string{"load": "-", "ingest": file}[command]
			var errOut strings.Builder
			code := run(t.Context(), []string{command, dir, from}, console{strings.NewReader("a\t1\n"), to, &errOut})
			if code == exitOK || !strings.Contains(errOut.String(), "the keys are stored") {
				t.Errorf("%s: exit code %d, errors %q", command, code, errOut.String())
			}
			expect(t, "1", "get", dir, "a")
		}
	}
}

// A closedPipe is the output into a program that has ended.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestOutput_AClosedPipeEndsTheCommandWithoutAMessage(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	for _, args := range [][]string{{"help"}, {"bench", "-dir", temp, "-keys", "10k"}} {
		var errOut strings.Builder
		if code := run(t.Context(), args, console{strings.NewReader(""), closedPipe{}, &errOut}); code != exitPipe || errOut.Len() > 0 {
			t.Errorf("stoat %q: exit code %d, errors %q", args, code, errOut.String())
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestInput_InterruptedCommandsEndWhileTheyWaitForIt(t *testing.T) {
	t.Parallel()
	dir, copied := create(t), filepath.Join(t.TempDir(), "copy")
	for _, args := range [][]string{{"set", dir, "key", "-"}, {"load", dir, "-"}, {"load", "-sorted", dir, "-"}, {"verify-backup", "-"},
		{"restore", "-", copied}, {"backup", "-since", "-", dir, copied}} {
		ctx, cancel := context.WithCancel(t.Context())
		in, input := io.Pipe()
		var errOut strings.Builder
		go func() {
			_, _ = input.Write([]byte("a")) // returns when the command waits for the second byte
			cancel()
		}()
		if code := run(ctx, args, console{in, io.Discard, &errOut}); code != exitInterrupted {
			t.Errorf("stoat %q: exit code %d, errors %q", args, code, errOut.String())
		}
		_ = input.Close()
	}
	if _, err := os.Stat(copied); !os.IsNotExist(err) {
		t.Errorf("something is left behind: %v", err)
	}
}

func TestHelp_EachCommandIsInThePackageDocumentation(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, cmd := range commands() {
		fmt.Fprintf(&want, "//\t%-*s %s\n", commandWidth, strings.TrimSpace("stoat "+cmd.name+" "+cmd.args), cmd.short)
	}
	if !strings.Contains(string(doc), want.String()) {
		t.Errorf("doc.go lacks the list of commands:\n%s", &want)
	}
}

func TestHelp_EachCommandIsInTheREADMEOrTheCHANGELOG(t *testing.T) {
	t.Parallel()
	var text []byte
	for _, name := range []string{"README.md", "CHANGELOG.md"} {
		b, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, b...)
	}
	for _, cmd := range commands() {
		if !regexp.MustCompile("(`|`stoat |cmd/stoat )" + cmd.name + "[ `]").Match(text) {
			t.Errorf("README.md and CHANGELOG.md lack the command %s", cmd.name)
		}
	}
}
