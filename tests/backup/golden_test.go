package backup

import (
	"bytes"
	"context"
	"embed"
	"math"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
	"github.com/stoatdb/stoat/vfs/memfs"
)

//go:embed testdata
var testdata embed.FS

// Backups of each format version must be restored for ever.
func TestBackupGolden_Version1IsRestored(t *testing.T) {
	t.Parallel()
	full, err := testdata.ReadFile("testdata/v1-full.backup")
	testkit.Must(t, err)
	later, err := testdata.ReadFile("testdata/v1-later.backup")
	testkit.Must(t, err)
	o := &stoat.Options{FS: memfs.New(), MergeFunctions: []stoat.MergeFunction{merge.Counter}}
	_, err = stoat.Restore(context.Background(), "/r", stoat.RestoreOptions{Options: o}, bytes.NewReader(full), bytes.NewReader(later))
	testkit.Must(t, err)
	db, err := stoat.Open("/r", o)
	testkit.Must(t, err)
	got, err := snapshotOf(db, testkit.ClockStart)
	testkit.Must(t, err)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		count, err := tx.Get([]byte("count"))
		if err != nil {
			return err
		}
		if n, err := merge.Count(count); n != 5 || err != nil {
			t.Errorf("the counter is %d, %v", n, err)
		}
		timed, err := db.Keyspace("timed", nil)
		if err != nil {
			return err
		}
		at5, err := tx.In(timed).At(5).Get([]byte("t"))
		_, late := tx.In(timed).At(math.MaxUint64).Get([]byte("t"))
		if string(at5) != "five" || late == nil {
			t.Errorf("at 5 there is %q, %v; later %v", at5, err, late)
		}
		return err
	}))
	all := strings.Join(got, "\n")
	for _, want := range []string{`"a" 2@0 until -62135596800000 user 0 deleted false: 3 "new"`, `"\xffkey" 1@0 until -62135596800000 user 7`,
		`"later" 1@0 until 4000000000000`, `"long" 1@0 until -62135596800000 user 0 deleted false: 614400`, `"k" 2@0`, `keyspace "other"`} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is missing in\n%s", want, all)
		}
	}
	if strings.Contains(all, `"gone"`) {
		t.Error("a deleted key is there")
	}
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
}
