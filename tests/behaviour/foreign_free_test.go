package behaviour

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat"
	rec "github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A foreign log file with a whole header is no free file: the log would count on from its name
// once it has a segment there.
func TestForeignFiles_TheLogDoesNotMoveIntoThem(t *testing.T) {
	t.Parallel()
	const file = rec.NumberMax - 2
	disk := memfs.New()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
	testkit.Must(t, err)
	testkit.Must(t, db.Close())
	content := rec.AppendHeader(nil, rec.Header{Type: rec.TypeLog, Number: 1, File: file, Salt: 1, Size: 1 << 20})
	content = append(content, make([]byte, 1<<20-len(content))...)
	testkit.Must(t, testkit.WriteFile(disk, disk.Join(testkit.Dir, fmt.Sprintf("%d.log", uint64(file))), content))
	for run := range 5 {
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
		if err != nil {
			t.Fatalf("run %d: %v", run, err)
		}
		for i := range 300 {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), make([]byte, 10_000)) }))
		}
		killed := disk.Clone()
		testkit.Must(t, db.Close())
		disk = killed
	}
}
