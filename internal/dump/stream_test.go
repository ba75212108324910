package dump_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/backup"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/dump"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// dumped returns the dump of a file with the given content.
func dumped(t *testing.T, ctx context.Context, content []byte, valueMax int) (string, error) {
	t.Helper()
	disk := memfs.NewVolatile()
	testkit.Must(t, testkit.WriteFile(disk, "/file", content))
	var out strings.Builder
	err := dump.Run(ctx, dump.Options{FS: disk, Name: "/file", Out: &out, ValueMax: valueMax})
	return out.String(), err
}

// sortedFile returns a file of sorted entries with one value.
func sortedFile(t *testing.T, value []byte) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := backup.NewSortedWriter(&file, 7, settings.Small)
	testkit.Must(t, err)
	// The key begins as a stored key of a keyspace does.
	testkit.Must(t, w.Add(&base.Entry{Key: []byte("\xff\x01key"), Value: value, Meta: base.Meta{Kind: base.KindSet, User: 9}}))
	testkit.Must(t, w.Finish())
	return file.Bytes()
}

// Not parallel: it counts the bytes that this process allocates.
func TestStream_ALongValueTakesLittleMemory(t *testing.T) {
	const length = 64 << 20
	file := sortedFile(t, bytes.Repeat([]byte("value "), length/6+1)[:length])
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, err := dumped(t, t.Context(), file, 8)
	runtime.ReadMemStats(&after)
	testkit.Must(t, err)
	want := "sorted entries\n" +
		`entry kind="SET" key="\xff\x01key" user=9 length=67108864 parts=128 value="value va"` + "\n" +
		`end entries=1 checksum="ok"` + "\n"
	if text != want {
		t.Errorf("the dump is\n%s, want\n%s", text, want)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > length/4 {
		t.Errorf("the dump allocated %d bytes", n)
	}
}

func TestStream_TheEndOfTheContextEndsIt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if text, err := dumped(t, ctx, sortedFile(t, nil), 8); !errors.Is(err, context.Canceled) || text != "" {
		t.Errorf("the dump is %q, %v", text, err)
	}
}

func TestStream_DamageIsALineAfterWhatVerifies(t *testing.T) {
	t.Parallel()
	file := sortedFile(t, bytes.Repeat([]byte("value "), 1<<20))
	for _, cut := range []int{1, len(file) / 2} {
		text, err := dumped(t, t.Context(), file[:len(file)-cut], 8)
		testkit.Must(t, err)
		if !strings.HasPrefix(text, "sorted entries\n") || !strings.Contains(text, "\ndamage offset=") || strings.Contains(text, "\nend ") {
			t.Errorf("without %d bytes: %q", cut, text)
		}
	}
	for _, content := range []string{"", "stoatBAD", "stoat file backups"} {
		if text, err := dumped(t, t.Context(), []byte(content), 8); !errors.Is(err, dump.ErrUnknown) || text != "" {
			t.Errorf("%q is %q, %v", content, text, err)
		}
	}
	if _, err := dumped(t, t.Context(), []byte("stoatBAK\x01\x00\x00"), 8); !errors.Is(err, base.ErrCorrupt) {
		t.Errorf("a damaged header: %v", err)
	}
	if _, err := dumped(t, t.Context(), []byte("stoat file backup 2\n"), 8); !errors.Is(err, base.ErrVersion) {
		t.Errorf("a later list: %v", err)
	}
}

func TestStream_ListsShowWhatIsWrong(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"stoat file backup 1\nid X\nchecksum 00\n":                   "checksum sha256=\"00\" checksum=\"bad\"\n",
		"stoat file backup 1\nfile a b\n":                            "damage number=2 ",
		"stoat file backup 1\nid X":                                  "damage number=2 ",
		"stoat file backup 1\nid " + strings.Repeat("X", 300) + "\n": "damage number=2 ",
	} {
		text, err := dumped(t, t.Context(), []byte(content), 8)
		testkit.Must(t, err)
		if !strings.HasPrefix(text, "file backup format=\"1\"\n") || !strings.Contains(text, want) {
			t.Errorf("%q is %q, want %q", content, text, want)
		}
	}
}
