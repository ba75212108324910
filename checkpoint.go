package stoat

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/vfs"
)

// checkpointSuffix is added to the name of a checkpoint that is being made.
const checkpointSuffix = ".tmp"

// Checkpoint makes a copy of the database in dir, which must not exist: the error
// is fs.ErrExist of package io/fs if it does. The copy is a database of its own,
// with exactly the commits up to some moment during the call, and so with all that
// were acknowledged before it.
//
// Files of the database never change, so that the copy shares them by hard
// links: that takes little time and no space at first, and others go on reading
// and writing. On another file system the files are copied.
//
// The copy is made under the name dir.tmp and renamed when it is whole and
// durable: a crash leaves all of it in dir or nothing. What a crash leaves in
// dir.tmp is removed by the next Checkpoint to dir. The error is ErrLocked while
// another one makes a copy there, of this database or of another.
//
// What is only in the log has to be written to tables of the database before, so
// that a database opened with Options.ReadOnly returns ErrReadOnly.
func (d *DB) Checkpoint(ctx context.Context, dir string) error {
	if d.opts.ReadOnly {
		return ErrReadOnly
	}
	ctx, end, err := d.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer end()
	if !d.checkpointing.lockBefore(ctx.Done()) {
		return fmt.Errorf("checkpoint %s: %w", dir, interrupted(ctx))
	}
	defer d.checkpointing.Unlock()
	named := dir
	if dir, err = placeOf(d.fs, d.fs.Join(dir)); err != nil { // without a separator at its end
		return fmt.Errorf("checkpoint %s: %w", named, err)
	}
	c := checkpoint{db: d, ctx: ctx, started: time.Now(), dir: dir, temp: dir + checkpointSuffix}
	if err := c.make(); err != nil {
		return fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	d.emit(CheckpointDone{Dir: dir, Files: c.files, Bytes: c.bytes, Took: time.Since(c.started)})
	return nil
}

