package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/backup"
	"github.com/stoatdb/stoat/vfs"
)

// copyBuffer is the size in bytes of the buffers for backups.
const copyBuffer = 1 << 20

// runBackup writes a backup.
func runBackup(ctx context.Context, c *call, args []string) error {
	var since string
	var o stoat.BackupOptions
	c.flags.StringVar(&since, "since", "", "write what changed after the backup in this `file`")
	c.flags.IntVar(&o.Versions, "versions", 0, "write at most this `number` of versions of each key")
	rest, err := c.parse(args, 2, 2)
	if err != nil {
		return err
	}
	if since != "" {
		if o.Since, err = c.verify(ctx, since); err != nil {
			return err
		}
	}
	dir, name := rest[0], rest[1]
	write := func() (info stoat.BackupInfo, err error) {
		db, err := c.openToBackUp(dir)
		err = with(db, err, func(db *stoat.DB) error {
			info, err = c.backUp(ctx, db, name, o)
			return err
		})
		return info, err
	}
	info, err := write()
	if errors.Is(err, stoat.ErrReadOnly) {
		// The last writer died. Opening the database to write makes its log durable.
		if err := c.checkUser(dir); err != nil {
			return fmt.Errorf("the last writer did not close the database, so it must be opened once: %w", err)
		}
		var db *stoat.DB
		if db, err = c.openToWrite(dir); err == nil {
			err = db.Close()
		}
		if err != nil {
			return err
		}
		info, err = write()
	}
	if err == nil && name != "-" {
		fmt.Fprintln(c.out, describe(info))
	}
	return err
}

// backUp writes a backup to a new file, durably, or to standard output. After an error it
// leaves no file.
func (c *call) backUp(ctx context.Context, db *stoat.DB, name string, o stoat.BackupOptions) (info stoat.BackupInfo, err error) {
	if name == "-" {
		to := bufio.NewWriterSize(c.out, copyBuffer)
		if info, err = db.Backup(ctx, to, o); err == nil {
			err = to.Flush()
		}
		return info, err
	}
	err = newFile(name, func(to io.Writer) error {
		info, err = db.Backup(ctx, to, o)
		return err
	})
	return info, err
}

// newFile creates a file with what write writes, durably. After an error it leaves no file.
func newFile(name string, write func(to io.Writer) error) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	to := bufio.NewWriterSize(file, copyBuffer)
	if err = write(to); err == nil {
		err = errors.Join(to.Flush(), file.Sync())
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = vfs.OS().SyncDir(filepath.Dir(name))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// describe returns a line about a backup.
func describe(i stoat.BackupInfo) string {
	kind := "full backup"
	if i.Since > 0 {
		kind = fmt.Sprintf("changes after version %d", i.Since)
	}
	return fmt.Sprintf("%s at version %d of database %s of %s: %d versions of keys, %d keys unchanged",
		kind, i.Version, i.Database, i.Time.Format(time.RFC3339), i.Entries, i.Unchanged)
}

// verify reads a backup to its end.
func (c *call) verify(ctx context.Context, name string) (info stoat.BackupInfo, err error) {
	in, err := c.input(ctx, name)
	if err != nil {
		return info, err
	}
	defer func() { _ = in.Close() }() // it was only read
	if info, err = stoat.VerifyBackup(ctx, bufio.NewReaderSize(in, copyBuffer)); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return info, err
}

// runRestore makes a database of backups.
func runRestore(ctx context.Context, c *call, args []string) error {
	var o stoat.RestoreOptions
	c.flags.Uint64Var(&o.Version, "version", 0, "restore this `version`, that of one of the backups")
	rest, err := c.parse(args, 2, -1)
	if err != nil {
		return err
	}
	names, dir := rest[:len(rest)-1], rest[len(rest)-1]
	o.Options = withFunctions(&stoat.Options{Keys: c.keys()})
	return c.readChain(ctx, names, func(backups []io.Reader) error {
		info, err := stoat.Restore(ctx, dir, o, backups...)
		if err == nil {
			fmt.Fprintf(c.out, "restored version %d\n", info.Version)
		}
		return err
	})
}

// readChain calls read with the backups of the given names. The library numbers backups in
// errors: readChain puts their names there.
func (c *call) readChain(ctx context.Context, names []string, read func(backups []io.Reader) error) error {
	var backups []io.Reader
	for _, name := range names {
		in, err := c.input(ctx, name)
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }() // it was only read
		backups = append(backups, bufio.NewReaderSize(in, copyBuffer))
	}
	err := read(backups)
	for i := len(names); i > 0 && err != nil; i-- {
		err = named(err, fmt.Sprintf("backup %d of %d", i, len(names)), names[i-1])
	}
	return err
}

// named returns err with another name of a file in its text.
func named(err error, old, name string) error {
	return explained{strings.ReplaceAll(err.Error(), old, name), err}
}

// runVerifyBackup verifies backups, and that they belong together.
func runVerifyBackup(ctx context.Context, c *call, args []string) error {
	names, err := c.parse(args, 1, -1)
	if err != nil {
		return err
	}
	return c.readChain(ctx, names, func(backups []io.Reader) error {
		infos, err := backup.VerifyChain(ctx, backups)
		for i, info := range infos {
			fmt.Fprintf(c.out, "%s: %s\n", names[i], describe(stoat.BackupInfo(info)))
		}
		return err
	})
}
