package diskfull

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A quota is a disk that does not tell how full it is.
type quota struct{ *memfs.FS }

func (quota) Free(string) (uint64, error) { return 0, errors.New("unknown") }

var _ vfs.FS = quota{}

func TestQuota_AFullOneEndsTheRetention(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2000, 20_000} {
		synctest.Test(t, func(t *testing.T) {
			disk := quota{memfs.New()}
			disk.SetCapacity(8 << 20)
			db, err := stoat.Open("/db", &stoat.Options{FS: disk, MemtableSize: 256 << 10, ChangeRetention: 1 << 40})
			testkit.Must(t, err)
			refused := 0
			for i := range 300 {
				err := db.Update(func(tx stoat.Txn) error {
					for j := range 10 {
						if err := tx.Set(testkit.Key(j), make([]byte, size)); err != nil {
							return err
						}
					}
					return nil
				})
				switch {
				case errors.Is(err, stoat.ErrNoSpace):
					refused++
					time.Sleep(time.Second)
				case err != nil:
					t.Fatal(err)
				}
				if i%30 == 0 {
					time.Sleep(2 * time.Second) // flushes
				}
			}
			if refused > 60 {
				t.Errorf("values of %d bytes: %d of 300 commits were refused", size, refused)
			}
			testkit.Must(t, db.Close())
		})
	}
}
