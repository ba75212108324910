package filebackup

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/base"
)

func sample() *list {
	return &list{id: newID(time.Date(2026, 11, 23, 20, 15, 0, 123456789, time.UTC), 0x1234), files: []file{
		{name: "000012.table", size: 81920, sum: sha256.Sum256([]byte("a")), mark: strings.Repeat("0f", markSize)},
		{name: "000013.values", size: 1 << 40, sum: sha256.Sum256([]byte("b")), mark: strings.Repeat("1e", markSize)},
		{name: "KEYS", size: 100, sum: sha256.Sum256([]byte("c"))},
		{name: "MANIFEST-000001", size: 65536, sum: sha256.Sum256([]byte("d"))},
	}}
}

// withChecksum returns the lines of a list with the right last line.
func withChecksum(lines string) []byte {
	return fmt.Appendf([]byte(lines), "checksum %v\n", sum(sha256.Sum256([]byte(lines))))
}

// lines returns the lines of a list but for the last.
func lines(b []byte) string { return string(b[:bytes.LastIndex(b, []byte("checksum"))]) }

func TestList_DecodesToWhatWasEncoded(t *testing.T) {
	t.Parallel()
	b := sample().encode()
	l, err := decodeList(b)
	must(t, err)
	if got := l.encode(); !bytes.Equal(got, b) || len(l.files) != 4 {
		t.Errorf("got %q, want %q", got, b)
	}
	if at, ok := parseID(l.id); !ok || at.Nanosecond() != 123456789 {
		t.Errorf("the ID %s has the time %v", l.id, at)
	}
}

func TestList_EachChangedByteIsNoticed(t *testing.T) {
	t.Parallel()
	b := sample().encode()
	for i := range b {
		for _, by := range []byte{1, 0x20, 0x80, 0xff} {
			bad := bytes.Clone(b)
			bad[i] ^= by
			if _, err := decodeList(bad); !errors.Is(err, base.ErrCorrupt) && !errors.Is(err, base.ErrVersion) {
				t.Fatalf("byte %d changed by %#x: %v", i, by, err)
			}
		}
		if _, err := decodeList(b[:i]); !errors.Is(err, base.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", i, err)
		}
	}
}

// The checksum of these lists is right.
func TestList_RefusesWhatNoBackupWrites(t *testing.T) {
	t.Parallel()
	good := lines(sample().encode())
	for name, change := range map[string][2]string{
		"a path":             {"file KEYS", "file ../KEYS"},
		"an unknown file":    {"file KEYS", "file NOTES"},
		"no manifest":        {"MANIFEST-000001", "000014.table"},
		"two manifests":      {"file KEYS", "file MANIFEST-000000"},
		"one file twice":     {"000013.values", "000012.table"},
		"another order":      {"000012.table", "000099.table"},
		"a negative size":    {" 100 ", " -100 "},
		"a size with zeros":  {" 100 ", " 0100 "},
		"another sum":        {"end 4 ", "end 5 "},
		"a short SHA-256":    {" 100 ", " 100 00"},
		"a bad ID":           {"id 2026", "id 2o26"},
		"a mark of no bytes": {strings.Repeat("0f", markSize), ""},
		"an upper-case mark": {strings.Repeat("0f", markSize), strings.Repeat("0F", markSize)},
		"a table unmarked":   {strings.Repeat("0f", markSize), "-"},
		"a mark of KEYS":     {" -\nfile MANIFEST", " " + strings.Repeat("0f", markSize) + "\nfile MANIFEST"},
		"an unknown line":    {"file KEYS", "link KEYS"},
		"an empty line":      {"file KEYS", "\nfile KEYS"},
	} {
		if !strings.Contains(good, change[0]) {
			t.Fatalf("%s: the list has no %q", name, change[0])
		}
		bad := withChecksum(strings.Replace(good, change[0], change[1], 1))
		if _, err := decodeList(bad); !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := decodeList(withChecksum(strings.Replace(good, "backup 1", "backup 2", 1))); !errors.Is(err, base.ErrVersion) {
		t.Errorf("a later format: %v", err)
	}
}

// The checksums of these lists are right. The allocations of the whole process count, so
// this test does not run in parallel.
func TestList_OfMeaninglessLinesCostsNoMultipleOfItsSize(t *testing.T) {
	const size = 8 << 20
	head := listHead + "1\n"
	for name, text := range map[string]string{
		"line feeds":       strings.Repeat("\n", size),
		"spaces":           strings.Repeat(" ", size) + "\n",
		"words in a file":  "file" + strings.Repeat(" ", size) + "\n",
		"a long ID":        "id " + strings.Repeat("x", size) + "\n",
		"many short lines": strings.Repeat("id x\n", size/5),
	} {
		b := withChecksum(head + text)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := decodeList(b); !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 2*size {
			t.Errorf("%s: a list of %d bytes allocates %d", name, len(b), n)
		}
	}
}

func FuzzList(f *testing.F) {
	f.Add(sample().encode())
	f.Add([]byte(lines(sample().encode())))
	f.Add([]byte("stoat file backup 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, withChecksum(string(b))} {
			l, err := decodeList(b)
			if err != nil {
				if !errors.Is(err, base.ErrCorrupt) && !errors.Is(err, base.ErrVersion) {
					t.Fatal(err)
				}
				continue
			}
			if !bytes.Equal(l.encode(), b) {
				t.Fatalf("%q decodes to %q", b, l.encode())
			}
		}
	})
}
