package place

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A noValues keeps nothing of what is written to value files.
type noValues struct{ vfs.FS }

type noFile struct{ vfs.File }

func (n noValues) Create(name string, c vfs.Category) (vfs.File, error) {
	f, err := n.FS.Create(name, c)
	if c == vfs.CatValue {
		f = noFile{f}
	}
	return f, err
}

func (noFile) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }

// newStore returns the store of a database in the root directory of fs.
func newStore(t *testing.T, fs vfs.FS) *state.Store {
	t.Helper()
	s := state.New(state.Options{
		FS: fs, Dir: "/", Clock: base.SystemClock{}, Executor: &work.Executor{Manual: true}, Report: func(any) {},
		MemtableSize: 1 << 20, MemoryBudget: 1 << 24,
		State: manifest.State{Version: new(manifest.Version)},
		Files: func(func() bool) *tree.Files { return tree.New(tree.Options{}) },
		Freed: func() {},
	})
	t.Cleanup(s.Abandon)
	return s
}

// The collector that rewrites the file of such a value copies no others.
func TestWriter_AValueLargerThanAFileSharesItsFileWithNoOther(t *testing.T) {
	t.Parallel()
	w := NewWriter(&Options{Store: newStore(t, noValues{memfs.New()}), Settings: func(uint32) *settings.Settings { return new(settings.Settings) }})
	all := make([]byte, fileSize)
	for i, size := range []int{1000, fileSize, 1000, 1000, fileSize / 2, fileSize / 2} {
		e := base.Entry{Key: fmt.Appendf(nil, "%d", i), Value: all[:size]}
		if _, err := w.Append(&e, base.SeqNum(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for _, f := range w.Made() {
		if got = append(got, f.Values); f.Values > 1 && f.Size > fileSize+fileSize/100 {
			t.Errorf("a file of %d values has %d bytes", f.Values, f.Size)
		}
	}
	if want := []uint64{1, 1, 3, 1}; !slices.Equal(got, want) {
		t.Errorf("files of %d values, want %d", got, want)
	}
}
