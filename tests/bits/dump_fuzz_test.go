package bits

import (
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/dump"
	"github.com/stoatdb/stoat/internal/testing/hostile"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// FuzzDump prints files of garbage, and files of an image with patches. It must end with
// the text or with a typed error, and take little memory.
func FuzzDump(f *testing.F) {
	var once sync.Once
	var disk *memfs.FS
	var names []string
	f.Add([]byte{1, 0, 0, 1}, true)
	f.Add([]byte("\x02\x00\x10\xff\x03\x10\x00\x01\x01\x7f\xff\x80"), true)
	f.Add([]byte("stoatMAN\x01\x00\x00\x00"), false)
	f.Fuzz(func(t *testing.T, data []byte, patch bool) {
		once.Do(func() {
			var err error
			disk = testkit.NewSampleDisk(t)
			names, err = disk.List(testkit.Dir)
			testkit.Must(t, err)
		})
		victim, files := garbage(t, data), garbageNames
		if patch {
			victim, files = patched(t, disk, names, data), names
		}
		for i, name := range files {
			o := dump.Options{FS: victim, Name: disk.Join(testkit.Dir, name), Out: io.Discard, JSON: i%2 == 0, ValueMax: 64}
			var err error
			took := hostile.Allocated(func() { err = dump.Run(t.Context(), o) })
			if most := uint64(64<<20 + 200*len(data)); took > most {
				t.Errorf("%s: %d bytes were allocated, want %d at most", name, took, most)
			}
			if err != nil && !errors.Is(err, stoat.ErrCorrupt) && !errors.Is(err, stoat.ErrVersion) {
				t.Fatalf("%s: %v", name, err)
			}
		}
	})
}
