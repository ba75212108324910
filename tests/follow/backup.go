package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// backUp makes a full backup of a follower, or an incremental one after the last. At times
// it restores all of them, and judges the result.
func (r *reader) backUp(rng *rand.Rand) error {
	ctx, o := context.Background(), stoat.BackupOptions{}
	if len(r.backups) > 0 && rng.IntN(3) > 0 {
		o.Since = r.last
	} else {
		r.backups = nil
	}
	var b bytes.Buffer
	info, err := r.db.Backup(ctx, &b, o)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	r.history.keep(info.Version)
	r.backups, r.last = append(r.backups, b.Bytes()), info
	if rng.IntN(3) > 0 {
		return nil
	}
	var backups []io.Reader
	for _, b := range r.backups {
		backups = append(backups, bytes.NewReader(b))
	}
	restored := r.options
	restored.FS = memfs.NewVolatile()
	if _, err := stoat.Restore(ctx, testkit.Dir, stoat.RestoreOptions{Options: &restored}, backups...); err != nil {
		return fmt.Errorf("restore of %d backups: %w", len(backups), err)
	}
	db, err := stoat.Open(testkit.Dir, &restored)
	if err != nil {
		return err
	}
	other := reader{db: db, history: r.history, seen: info.Version}
	return errors.Join(other.look(rng), other.close())
}

// sync makes durable what the writer has committed.
func (r *reader) sync() error {
	version := r.history.newest()
	err := r.db.Sync()
	if err == nil {
		r.history.keep(version)
	}
	return err
}
