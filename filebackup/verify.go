package filebackup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/work"
)

// complaintsMax is how many damaged files one Verify reports.
const complaintsMax = 100

// Verify reads every byte of a backup, and compares it with its checksums. An empty id is
// that of the newest backup. The error names each damaged or missing file, and is
// stoat.ErrCorrupt. Verify needs no space and changes nothing. A Backup with Options.Verify
// replaces damaged files that the database still has. Restore refuses a backup with other ones.
//
// It does not look into the files. DB.Check of a restored database does.
func Verify(ctx context.Context, store Store, id string) (Info, error) {
	ctx = work.Given(ctx)
	id, err := newestOr(ctx, store, id)
	if err != nil {
		return Info{}, err
	}
	l, err := getList(ctx, store, id)
	if err != nil {
		return Info{}, err
	}
	var mu sync.Mutex
	var complaints []error // guarded by mu
	err = each(ctx, workersDefault, l.files, func(ctx context.Context, f *file) error {
		err := fetch(ctx, store, f, func([]byte, int64) error { return nil })
		if !errors.Is(err, base.ErrCorrupt) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if complaints = append(complaints, err); len(complaints) == complaintsMax {
			return errors.New("there may be more")
		}
		return nil
	})
	if err = orDeleted(ctx, store, id, errors.Join(append(complaints, err)...)); err != nil {
		return l.info(), fmt.Errorf("backup %s: %w", id, err)
	}
	return l.info(), nil
}
