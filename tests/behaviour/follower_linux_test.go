package behaviour

import (
	"os"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
)

// cutFS cuts each table while it is opened: between its mapping and the first look.
type cutFS struct{ vfs.FS }

func (fs cutFS) Open(name string, cat vfs.Category) (vfs.File, error) {
	f, err := fs.FS.Open(name, cat)
	if err == nil && cat == vfs.CatTable {
		f = cutFile{f, name}
	}
	return f, err
}

type cutFile struct {
	vfs.File
	name string
}

func (f cutFile) Map(size int64) (vfs.Mapping, error) {
	m, err := f.File.Map(size)
	if err == nil {
		err = os.Truncate(f.name, 0)
	}
	return m, err
}

func TestFollower_AFaultWhileFilesAreOpenedIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := stoat.Open(dir, nil)
	testkit.Must(t, err)
	testkit.SetKeys(t, db, 0, 600, 300, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	f, err := stoat.OpenFollower(dir, &stoat.Options{FS: cutFS{vfs.OS()}, FollowEvery: -1})
	if err == nil {
		testkit.Must(t, f.Close())
		t.Error("OpenFollower says nothing")
	}
}
