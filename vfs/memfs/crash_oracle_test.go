package memfs

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/vfs"
)

// An oracle records the operations on a disk and checks whether a crash state is legal.
// It shares no code with Crash: it keeps every version of every file as a slice of bytes.
type oracle struct {
	t     *testing.T
	disk  *FS
	files map[uint64]*fileHistory
	names map[string]*nameHistory
}

// A fileHistory has the durable bytes of a file, and its bytes after each later operation.
type fileHistory struct {
	durable  []byte
	versions [][]byte
	// blocks are the allocated blocks. durableBlocks were allocated at the last sync.
	// fresh were allocated since then.
	blocks, durableBlocks, fresh map[int64]bool
}

// A nameHistory has the inode that a name durably leads to, 0 for none, and the inodes
// that it led to since then.
type nameHistory struct {
	durable uint64
	since   []uint64
}

func newOracle(t *testing.T, disk *FS) *oracle {
	return &oracle{t: t, disk: disk, files: map[uint64]*fileHistory{}, names: map[string]*nameHistory{}}
}

func (f *fileHistory) now() []byte {
	if n := len(f.versions); n > 0 {
		return f.versions[n-1]
	}
	return f.durable
}

func (o *oracle) name(name string) *nameHistory {
	if o.names[name] == nil {
		o.names[name] = &nameHistory{}
	}
	return o.names[name]
}

// leads records that a name leads to an inode from now on.
func (o *oracle) leads(name string, ino uint64) {
	h := o.name(name)
	h.since = append(h.since, ino)
	if ino != 0 && o.files[ino] == nil {
		o.files[ino] = &fileHistory{
			blocks: map[int64]bool{}, durableBlocks: map[int64]bool{}, fresh: map[int64]bool{},
		}
	}
}

func (o *oracle) target(name string) uint64 {
	h := o.name(name)
	if n := len(h.since); n > 0 {
		return h.since[n-1]
	}
	return h.durable
}

func (o *oracle) syncedDir(dir string) {
	for name, h := range o.names {
		if path.Dir(name) == dir {
			h.durable, h.since = o.target(name), nil
		}
	}
}

func (f *fileHistory) wrote(off int64, data []byte) {
	v := slices.Clone(f.now())
	v = resized(v, max(int64(len(v)), off+int64(len(data))))
	copy(v[off:], data)
	f.versions = append(f.versions, v)
	f.took(off, int64(len(data)))
}

func (f *fileHistory) took(off, n int64) {
	for b := off / pageSize; b*pageSize < off+n; b++ {
		f.blocks[b] = true
		f.fresh[b] = !f.durableBlocks[b]
	}
}

func (f *fileHistory) truncated(size int64) {
	f.versions = append(f.versions, resized(slices.Clone(f.now()), size))
	for b := range f.blocks {
		if b*pageSize >= size {
			delete(f.blocks, b)
		}
	}
}

func (f *fileHistory) preallocated(off, n int64) {
	f.versions = append(f.versions, resized(slices.Clone(f.now()), max(int64(len(f.now())), off+n)))
	if n > 0 {
		f.took(off, n)
	}
}

func (f *fileHistory) synced() {
	f.durable, f.versions = f.now(), nil
	f.durableBlocks, f.fresh = maps.Clone(f.blocks), map[int64]bool{}
}

// check returns an error if the disk is not a legal state after a crash.
func (o *oracle) check(after *FS) error {
	for name, h := range o.names {
		var got uint64
		if ino, err := after.findLocked(name); err == nil {
			got = ino.id
		}
		if got != h.durable && !slices.Contains(h.since, got) {
			return fmt.Errorf("%s leads to %d, which it never did since %d was durable", name, got, h.durable)
		}
		if len(h.since) == 0 && got != h.durable {
			return fmt.Errorf("%s leads to %d, but %d was durable", name, got, h.durable)
		}
		if got == 0 {
			continue
		}
		ino, err := after.findLocked(name)
		if err != nil {
			return err
		}
		stored := make([]byte, ino.live.size)
		ino.live.readAt(stored, 0)
		if err := o.files[got].check(stored); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, ino := range after.mu.inodes {
		if len(ino.journal) > 0 {
			return fmt.Errorf("file %d has unsynced operations after a crash", ino.id)
		}
	}
	return nil
}

func (f *fileHistory) check(got []byte) error {
	all := append([][]byte{f.durable}, f.versions...)
	least, most, exact := len(f.durable), len(f.durable), false
	for _, v := range all {
		least, most = min(least, len(v)), max(most, len(v))
		exact = exact || len(v) == len(got)
	}
	if !exact && (len(got)%sectorSize != 0 || len(got) < least || len(got) > most) {
		return fmt.Errorf("%d bytes long, which it never was", len(got))
	}
	for off := 0; off < len(got); off += sectorSize {
		sector := got[off:min(len(got), off+sectorSize)]
		if f.fresh[int64(off/pageSize)] {
			continue
		}
		if !slices.ContainsFunc(all, func(v []byte) bool { return sectorEqual(v, off, sector) }) {
			return fmt.Errorf("sector at %d is none of the %d it was", off, len(all))
		}
	}
	return nil
}

// sectorEqual reports whether v has the bytes of sector at off. Beyond its end, v has
// zeros.
func sectorEqual(v []byte, off int, sector []byte) bool {
	have := v[min(len(v), off):min(len(v), off+len(sector))]
	if !bytes.Equal(sector[:len(have)], have) {
		return false
	}
	for _, b := range sector[len(have):] {
		if b != 0 {
			return false
		}
	}
	return true
}

// A workload changes a disk at random and records the changes in the oracle.
type workload struct {
	*oracle
	rng  *rand.Rand
	dirs []string
	open []*file
	// neverSyncs makes the workload skip syncs.
	neverSyncs bool
}

func newWorkload(t *testing.T, rng *rand.Rand) *workload {
	disk := New()
	w := &workload{oracle: newOracle(t, disk), rng: rng, dirs: []string{"/a", "/b"}}
	for _, dir := range w.dirs {
		must(t, disk.MkdirAll(dir))
	}
	return w
}

func (w *workload) randomName() string {
	return w.dirs[w.rng.IntN(len(w.dirs))] + "/" + string(rune('p'+w.rng.IntN(5)))
}

// step runs one random operation.
func (w *workload) step() {
	t, rng := w.t, w.rng
	switch pick := rng.IntN(24); {
	case pick < 4 || len(w.open) == 0:
		name := w.randomName()
		f, err := w.disk.Create(name, vfs.Category(1+rng.IntN(5)))
		if w.target(name) != 0 {
			wantIs(t, err, vfs.ErrExist)
			return
		}
		must(t, err)
		w.open = append(w.open, f.(*file))
		w.leads(name, f.(*file).ino.id)
	case pick == 4:
		w.rename(w.randomName(), w.randomName())
	case pick == 5:
		name := w.randomName()
		if w.target(name) != 0 {
			must(t, w.disk.Remove(name))
			w.leads(name, 0)
		}
	case pick == 6:
		old, name := w.randomName(), w.randomName()
		if w.target(old) != 0 && w.target(name) == 0 {
			must(t, w.disk.Link(old, name))
			w.leads(name, w.target(old))
		}
	case pick == 7 && !w.neverSyncs:
		dir := w.dirs[rng.IntN(len(w.dirs))]
		must(t, w.disk.SyncDir(dir))
		w.syncedDir(dir)
	default:
		w.stepFile(w.open[rng.IntN(len(w.open))])
	}
}

func (w *workload) rename(old, name string) {
	if w.target(old) == 0 {
		wantIs(w.t, w.disk.Rename(old, name), vfs.ErrNotExist)
		return
	}
	must(w.t, w.disk.Rename(old, name))
	if w.target(old) != w.target(name) {
		w.leads(name, w.target(old))
		w.leads(old, 0)
	}
}

func (w *workload) stepFile(f *file) {
	t, rng, h := w.t, w.rng, w.files[f.ino.id]
	off := rng.Int64N(40_000)
	if rng.IntN(3) > 0 {
		off = int64(len(h.now())) // most writes append
	}
	switch rng.IntN(9) {
	case 0:
		must(t, f.Truncate(off))
		h.truncated(off)
	case 1:
		n := rng.Int64N(20_000)
		_, err := f.Preallocate(off, n)
		must(t, err)
		h.preallocated(off, n)
	case 2:
		if w.neverSyncs {
			return
		}
		must(t, f.SyncData())
		h.synced()
	default:
		data := make([]byte, 1+rng.IntN(7_000))
		if rng.IntN(2) == 0 {
			data = data[:1+rng.IntN(min(len(data), 300))]
		}
		noise.Fill(rng, data)
		if _, err := f.WriteAt(data, off); err != nil {
			t.Fatal(err)
		}
		h.wrote(off, data)
	}
}

// dump returns the contents of all files by name.
func dump(t *testing.T, m *FS) map[string]string {
	t.Helper()
	all := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		names, err := m.List(dir)
		must(t, err)
		for _, name := range names {
			name = path.Join(dir, name)
			if info, err := m.Stat(name); err == nil && info.Dir {
				all[name] = "directory"
				walk(name)
				continue
			}
			all[name] = fileContents(t, m, name)
		}
	}
	walk("/")
	return all
}

func wantSameDisk(t *testing.T, got, want map[string]string) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	for name, w := range want {
		if g, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		} else if g != w {
			t.Errorf("%s differs: %d bytes, want %d", name, len(g), len(w))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s should not be there", name)
		}
	}
	t.FailNow()
}
