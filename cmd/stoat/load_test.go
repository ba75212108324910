package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// loaded makes a database, loads input into it, and returns its directory.
func loaded(t *testing.T, input string, flags ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	succeed(t, "create", dir)
	out, errOut, code := stoatCommand(t.Context(), input, append(append([]string{"load"}, flags...), dir, "-")...)
	if code != exitOK || !strings.HasSuffix(out, " keys loaded\n") {
		t.Fatalf("exit code %d, printed %q, errors %q", code, out, errOut)
	}
	return dir
}

func TestLoad_ReadsWhatScanPrints(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	fill(t, dir)
	for _, flags := range [][]string{nil, {"-hex"}} {
		printed := succeed(t, append(append([]string{"scan"}, flags...), dir)...)
		for _, more := range []string{"-sorted", "-sorted=false"} {
			copied := loaded(t, printed, append(flags, more)...)
			if again := succeed(t, append(append([]string{"scan"}, flags...), copied)...); again != printed {
				t.Errorf("%v %s: the copy has %d bytes of lines, want %d", flags, more, len(again), len(printed))
			}
		}
	}
}

func TestLoad_Formats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, input, want string
		flags             []string
	}{
		{"lines in any order", "b\t2\na\t1\nb\t3\n", "a\t1\nb\t3\n", nil},
		{"escapes", `a\x00"\\` + "\t" + `\t"` + "\n", `a\x00"\\` + "\t" + `\t"` + "\n", nil},
		{"an empty value and no last newline", "a\t", "a\t\n", nil},
		{"JSON", `{"key": "b", "value": "tab\t"}` + "\n" + `{"value": "1", "key": "a"}`, "a\t1\nb\ttab\\t\n", []string{"-json"}},
		{"JSON with U+FFFD of its own", "{\"key\": \"\uFFFD\", \"value\": \"\\uFFFD\"}", "\uFFFD\t\uFFFD\n", []string{"-json"}},
		{"JSON with escaped backslashes", `{"key":"k","value":"\\ufffd \\\ufffd \\\\ufffd \uD83D\uDE00"}`, `k` + "\t" + `\\ufffd \\` + "\uFFFD" + ` \\\\ufffd 😀` + "\n", []string{"-json"}},
		{"JSON with quotation marks", `{"value":"\"\\","key":"\\\"key\""}`, `\\"key"` + "\t" + `"\\` + "\n", []string{"-json"}},
		{"JSON in hexadecimal", `{"key": "61", "value": "6200"}`, "a\tb\\x00\n", []string{"-json", "-hex"}},
		{"sorted", "a\t1\nb\t2\n", "a\t1\nb\t2\n", []string{"-sorted"}},
		{"nothing", "", "", nil},
	} {
		if got := succeed(t, "scan", loaded(t, c.input, c.flags...)); got != c.want {
			t.Errorf("%s: loaded %q, want %q", c.name, got, c.want)
		}
	}
}

func TestLoad_NamesTheLineOfAnError(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	succeed(t, "create", dir)
	for _, c := range []struct {
		input, want string
		flags       []string
	}{
		{"a\t1\nb 2\n", "line 2: there is no tab", nil},
		{"a\t1\n\\q\t2\n", "line 2: ", nil},
		{"a\t1\nk\xe9y\t2\n", "is not UTF-8", nil},
		{"a\t\xff\n", "is not UTF-8", nil},
		{"{\"key\": \"k\xe9y\", \"value\": \"\"}", "the object is not UTF-8", []string{"-json"}},
		{`{"key": "k", "value": "\uD800"}`, "the object is not UTF-8", []string{"-json"}},
		{`{"key":"k","value":"\\ufffd` + "\xff" + `"}`, "the object is not UTF-8", []string{"-json"}},
		{`{"key":"k","value":"\\ufffd\ud800"}`, "the object is not UTF-8", []string{"-json"}},
		{`{"key":"k","value":"\\\\ufffd\\\ufffd\ud800"}`, "the object is not UTF-8", []string{"-json"}},
		{`{"key":"k","value":"\ud800\u0041"}`, "the object is not UTF-8", []string{"-json"}},
		{`{"key":"k","value":"a","value":"b"}`, "line 1: want one object with one", []string{"-json"}},
		{`{"key":"a","key":"b","value":"1"}`, "line 1: want one object with one", []string{"-json"}},
		{`{"key":null,"key":"b","value":"1"}`, "line 1: want one object with one", []string{"-json"}},
		{`{"key":"a","KEY":"b","value":"1"}`, "line 1: want one object with one", []string{"-json"}},
		{`{"Key":"a","value":"1"}`, "line 1: want one object with one", []string{"-json"}},
		{`{"key":"\\\"","value":"\\","value":"\"key"}`, "line 1: want one object with one", []string{"-json"}},
		{`{"key":"a","value":null}`, "line 1: want one object with one", []string{"-json"}},
		{"a\tz\n", "line 1: ", []string{"-hex"}},
		{`{"key": "a"}`, "line 1: ", []string{"-json"}},
		{`{"key": "a", "value": "b", "more": 1}`, "line 1: ", []string{"-json"}},
		{`{"key":"a","value":"1"}} {"key":"b","value":"2"}`, "line 1: want one object", []string{"-json"}},
		{`{"key":"a","value":"1"}]`, "line 1: want one object", []string{"-json"}},
		{`{"key":"a","value":"1"} {"key":"b","value":"2"}`, "line 1: want one object", []string{"-json"}},
		{"\t1\n", "key 0 of the input", nil},
		{"b\t1\na\t2\n", "key 1 of the input", []string{"-sorted"}},
	} {
		_, errOut, code := stoatCommand(t.Context(), c.input, append(append([]string{"load"}, c.flags...), dir, "-")...)
		if code != exitError || !strings.Contains(errOut, c.want) {
			t.Errorf("%q: exit code %d, errors %q", c.input, code, errOut)
		}
	}
	expect(t, "", "scan", dir)
}

func TestLoad_ReadsAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "lines")
	if err := os.WriteFile(file, []byte("a\t1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "db")
	succeed(t, "create", db)
	expect(t, "1 keys loaded\n", "load", "-ttl", "24h", db, file)
	expect(t, "a\t1\n", "scan", db)
	if _, _, code := stoatCommand(t.Context(), "", "load", db, file+" none"); code != exitError {
		t.Errorf("a file that does not exist: exit code %d", code)
	}
}

// A pieceReader reads a kilobyte at a time, as from a slow pipe.
type pieceReader struct{ io.Reader }

func (r pieceReader) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 1<<10)]) }

func TestLines_ALongLineTakesNoLongerThanManyShortOnes(t *testing.T) {
	const size = 16 << 20
	read := func(lines int) time.Duration {
		line := append(bytes.Repeat([]byte("x"), size/lines-1), '\n')
		began, n := time.Now(), 0
		for _, err := range linesOf(pieceReader{bytes.NewReader(bytes.Repeat(line, lines))}, func(got []byte) (e stoat.Entry, err error) {
			if n += len(got) + 1; len(got) != len(line)-1 {
				err = errors.New("another length")
			}
			return e, err
		}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if n != size {
			t.Fatalf("read %d bytes, want %d", n, size)
		}
		return time.Since(began)
	}
	short, long := read(256), read(1)
	for range 2 {
		short, long = min(short, read(256)), min(long, read(1))
	}
	if long > 20*short+time.Second {
		t.Errorf("a line of %d bytes takes %v, 256 lines take %v", size, long, short)
	}
}

func TestLines_EndWithOrWithoutAnEndOfTheLastOne(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long", 50_000)
	for _, c := range []struct {
		from   io.Reader
		want   []string
		failed bool
	}{
		{strings.NewReader(""), nil, false},
		{strings.NewReader("\n\na"), []string{"", "", "a"}, false},
		{strings.NewReader("a\r\nb\rc\r"), []string{"a", "b\rc"}, false},
		{strings.NewReader(long + "\n" + long), []string{long, long}, false},
		{iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("a\nb"))), nil, true},
		{io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(os.ErrClosed)), []string{"a"}, true},
	} {
		var got []string
		var failed error
		for _, err := range linesOf(c.from, func(line []byte) (e stoat.Entry, err error) {
			got = append(got, string(line))
			return e, nil
		}) {
			failed = errors.Join(failed, err)
		}
		if !slices.Equal(got, c.want) || (failed != nil) != c.failed {
			t.Errorf("lines %.80q, error %v; want %.80q", got, failed, c.want)
		}
	}
}

// FuzzLoad_LinesAreWhatScanPrints: a line that decodes is the line that scan prints for
// the entry, or another spelling of it.
func FuzzLoad_LinesAreWhatScanPrints(f *testing.F) {
	f.Add([]byte("a\t1"), false)
	f.Add([]byte(`\x00"\\`+"\t"+`\t`), false)
	f.Add([]byte("61\t6200"), true)
	f.Fuzz(func(t *testing.T, line []byte, hex bool) {
		text := &textFormat{hex: hex}
		e, err := text.line(line)
		if err != nil {
			return
		}
		printed := append(text.encode(nil, e.Key), '\t')
		again, err := text.line(text.encode(printed, e.Value))
		if err != nil || !bytes.Equal(again.Key, e.Key) || !bytes.Equal(again.Value, e.Value) {
			t.Errorf("%q decodes as %q and %q, then as %q and %q, %v", line, e.Key, e.Value, again.Key, again.Value, err)
		}
		_, _ = text.object(line)
	})
}

// The keys are stored once the command has printed their number.
func TestWith_AFailedCloseSaysThatTheWorkIsDone(t *testing.T) {
	t.Parallel()
	for _, failed := range []error{nil, errors.New("not done")} {
		disk := faultfs.New(memfs.New())
		db, err := stoat.Open("/db", &stoat.Options{FS: disk})
		err = with(db, err, func(db *stoat.DB) error {
			if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), []byte("value")) }); err != nil {
				t.Fatal(err)
			}
			disk.Add(faultfs.Rule{Op: vfs.OpWrite, Forever: true})
			return failed
		})
		if !errors.Is(err, vfs.ErrIO) || failed != nil && !errors.Is(err, failed) {
			t.Fatalf("the work returns %v, and both %v", failed, err)
		}
		if done := strings.HasPrefix(err.Error(), "the command has done its work"); done != (failed == nil) {
			t.Errorf("the work returns %v, and the text of both is %q", failed, err)
		}
	}
}
