package behaviour

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat"
	rec "github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A foreign file or a damaged header must not take the log to numbers that recovery refuses.
func TestForeignFiles_TheLogDoesNotCountOnFromThem(t *testing.T) {
	t.Parallel()
	header := rec.AppendHeader(nil, rec.Header{Type: rec.TypeLog, Number: rec.NumberMax - 1, File: 77, Salt: 1, Size: 1 << 20})
	for name, content := range map[string][]byte{fmt.Sprintf("%d.log", uint64(rec.NumberMax-1)): nil, "000077.log": header} {
		t.Run(name, func(t *testing.T) {
			disk := memfs.New()
			opts := &stoat.Options{FS: disk}
			db, err := stoat.Open(testkit.Dir, opts)
			testkit.Must(t, err)
			testkit.Must(t, db.Close())
			testkit.Must(t, testkit.WriteFile(disk, disk.Join(testkit.Dir, name), content))
			db, err = stoat.Open(testkit.Dir, opts)
			testkit.Must(t, err)
			for i := range 100 {
				testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), make([]byte, 10_000)) }))
			}
			killed := disk.Clone()
			testkit.Must(t, db.Close())
			for what, fs := range map[string]*memfs.FS{"after a kill": killed, "after Close": disk} {
				db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs})
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				testkit.Must(t, db.Close())
			}
		})
	}
}
