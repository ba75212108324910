package mixture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// A chain is a full backup and the incremental ones that follow it.
type chain struct {
	files [][]byte
	infos []stoat.BackupInfo
}

// newest returns what is known of the last backup. Without one, it is the zero value, which
// asks for a full backup.
func (c *chain) newest() stoat.BackupInfo {
	if len(c.infos) == 0 {
		return stoat.BackupInfo{}
	}
	return c.infos[len(c.infos)-1]
}

// backup makes a backup. It verifies it, and often restores all of the chain.
func (r *run) backup() error {
	if r.rng.IntN(6) == 0 {
		r.backups = chain{}
	}
	o := stoat.BackupOptions{Since: r.backups.newest(), Compression: testkit.Compressions[r.rng.IntN(3)]}
	r.note("  since %d at %d", o.Since.Version, r.last)
	var to bytes.Buffer
	info, err := r.db.Backup(context.Background(), &to, o)
	if err != nil {
		return r.excuse(err, nil)
	}
	if info.Version != r.last {
		return fmt.Errorf("the backup is at %d, want %d", info.Version, r.last)
	}
	r.durable = r.last
	r.backups.files, r.backups.infos = append(r.backups.files, to.Bytes()), append(r.backups.infos, info)
	if r.trouble != nil {
		return nil
	}
	if _, err := stoat.VerifyBackup(context.Background(), &to); err != nil || r.rng.IntN(2) == 0 {
		return err
	}
	return r.restore()
}

// restore restores the chain into another directory.
func (r *run) restore() error {
	var all []io.Reader
	for _, b := range r.backups.files {
		all = append(all, bytes.NewReader(b))
	}
	dir := r.newDir()
	o := stored(r.opts)
	r.note("  restore %d backups to %s", len(all), dir)
	if _, err := stoat.Restore(context.Background(), dir, stoat.RestoreOptions{Options: &o}, all...); err != nil {
		return err
	}
	return r.compareCopy(dir)
}

// checkpoint makes a checkpoint.
func (r *run) checkpoint() error {
	dir := r.newDir()
	r.note("  at %d to %s", r.last, dir)
	if err := r.db.Checkpoint(context.Background(), dir); err != nil || r.trouble != nil {
		return r.excuse(err, nil)
	}
	return r.compareCopy(dir)
}

// newDir names a directory that is not there yet.
func (r *run) newDir() string {
	r.copies++
	return fmt.Sprintf("/copy%d", r.copies)
}

// compareCopy compares a copy of the database in another directory with the model. Half of
// the lives go on there.
func (r *run) compareCopy(dir string) error {
	o := stored(r.opts)
	db, err := stoat.Open(dir, &o)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	err = r.compareTwice(db)
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("copy in %s: %w", dir, err)
	}
	if r.rng.IntN(2) == 0 {
		return nil
	}
	r.note("  go on in %s", dir)
	r.release()
	if err := r.db.Close(); err != nil {
		return err
	}
	r.dir, r.backups, r.durable = dir, chain{}, r.last
	return r.again(r.last)
}

// compareTwice compares a database with the model, checks it, and does so again after a
// compaction.
func (r *run) compareTwice(db *stoat.DB) error {
	if err := r.compareWith(db, r.spaces, r.last); err != nil {
		return err
	}
	if err := checkSound(db); err != nil || r.rng.IntN(2) == 0 {
		return err
	}
	if err := db.Compact(context.Background(), stoat.CompactOptions{}); err != nil {
		return err
	}
	if err := r.compareWith(db, r.spaces, r.last); err != nil {
		return fmt.Errorf("after a compaction: %w", err)
	}
	return nil
}
