package bits

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/hostile"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// garbageNames are the names of the files of a directory of garbage.
var garbageNames = []string{"MANIFEST-000001", "000001.table", "000002.values", "000003.log", "000004.table", "000005.log", "LOCK"}

// FuzzSalvage salvages directories of garbage, and images with patches. It must end with
// an error or with a sound database, and take little memory.
func FuzzSalvage(f *testing.F) {
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
		var victim *memfs.FS
		if patch {
			victim = patched(t, disk, names, data)
		} else {
			victim = garbage(t, data)
		}
		var err error
		took := hostile.Allocated(func() {
			_, err = stoat.Salvage(t.Context(), testkit.Dir, salvaged, stoat.SalvageOptions{FS: victim})
		})
		if most := uint64(64<<20 + 200*len(data)); took > most {
			t.Errorf("%d bytes were allocated, want %d at most", took, most)
		}
		if err != nil {
			if !errors.Is(err, stoat.ErrCorrupt) && !errors.Is(err, stoat.ErrVersion) && !errors.Is(err, vfs.ErrNotExist) {
				t.Fatal(err)
			}
			return
		}
		db, err := stoat.Open(salvaged, &stoat.Options{FS: victim, ReadOnly: true})
		if err == nil {
			_, err = db.Check(t.Context(), stoat.CheckOptions{})
			err = errors.Join(err, db.Close())
		}
		testkit.Must(t, err)
	})
}

// patched returns a copy of a disk with bytes changed: each 4 bytes of data are the number
// of a file, an offset, and a change.
func patched(t *testing.T, disk *memfs.FS, names []string, data []byte) *memfs.FS {
	t.Helper()
	disk = disk.Clone()
	for ; len(data) >= 4; data = data[4:] {
		path := disk.Join(testkit.Dir, names[int(data[0])%len(names)])
		content, err := testkit.ReadFile(disk, path)
		testkit.Must(t, err)
		if len(content) == 0 {
			continue
		}
		at := int((int64(data[1])<<8 | int64(data[2])) * int64(len(content)) >> 16)
		if data[0]&0x80 != 0 {
			at = len(content) - 1 - (int(data[1])<<8|int(data[2]))%min(len(content), 1024)
		}
		content[at] ^= data[3]
		testkit.Must(t, testkit.WriteFile(disk, path, content))
	}
	return disk
}

// garbage returns a disk whose files have parts of data.
func garbage(t *testing.T, data []byte) *memfs.FS {
	t.Helper()
	disk := memfs.New()
	testkit.Must(t, disk.MkdirAll(testkit.Dir))
	for i, name := range garbageNames {
		part := data[len(data)*i/len(garbageNames):]
		testkit.Must(t, testkit.WriteFile(disk, fmt.Sprintf("%s/%s", testkit.Dir, name), part))
	}
	return disk
}
