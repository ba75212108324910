package tree

import (
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A follower tries versions whose files are gone, and later ones have other files.
func TestOpenAll_LeavesNothingOfVersionsThatItCannotOpen(t *testing.T) {
	t.Parallel()
	f := New(Options{FS: memfs.New(), Dir: "/"})
	for n := range base.FileNum(100) {
		v := &manifest.Version{Values: []manifest.LiveValues{{ValueFile: &manifest.ValueFile{Num: n, File: n, Size: 1}}}}
		v.Levels[6] = []*manifest.Table{{Num: n, Size: 1}}
		if err := f.OpenAll(v); err == nil {
			t.Fatal("files that are missing were opened")
		}
	}
	if n := len(f.tables) + len(f.values); n > 0 {
		t.Errorf("%d handles of files stay that no view has", n)
	}
}
