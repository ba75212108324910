package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/filebackup"
)

// tempSuffix is added to the directory of a database for the checkpoint of a file backup.
const tempSuffix = ".backup-files"

// describeFiles returns a line about a file backup.
func describeFiles(i filebackup.Info) string {
	return fmt.Sprintf("%s: backup of %s, %d files, %d bytes", i.ID, i.Time.Format(time.RFC3339), i.Files, i.Bytes)
}

// runBackupFiles copies the files of a database to a store.
func runBackupFiles(ctx context.Context, c *call, args []string) error {
	verify := c.flags.Bool("verify", false, "also read the files that STORE has already, and replace damaged ones")
	temp := c.flags.String("temp", "", "work in this `directory`, outside DIR (default DIR"+tempSuffix+")")
	rest, err := c.parse(args, 2, 2)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(rest[0]) // the parent of . has another name
	if err != nil {
		return err
	}
	resolved, err := filepath.EvalSymlinks(dir) // a link may be on another file system
	if err != nil {
		resolved = dir // opening the database tells what is wrong
	}
	o := filebackup.Options{Temp: resolved + tempSuffix, Verify: *verify}
	if *temp != "" {
		if o.Temp, err = filepath.Abs(*temp); err != nil {
			return err
		}
		for _, dir := range []string{dir, resolved} {
			if below, err := filepath.Rel(dir, o.Temp); err == nil && filepath.IsLocal(below) {
				return c.usagef("-temp %s is in %s", *temp, rest[0])
			}
		}
	}
	db, err := c.openBeside(rest[0])
	var r filebackup.Report
	err = with(db, err, func(db *stoat.DB) error {
		switch err := storeExists(rest[1]).(type) {
		case nil:
		case noStoreError: // the path may be wrong, or not mounted
			fmt.Fprintf(c.err, "stoat: new store in %s\n", rest[1])
		default:
			return err
		}
		r, err = filebackup.Backup(ctx, db, filebackup.Dir(nil, rest[1]), o)
		return err
	})
	if r.ID == "" {
		return err
	}
	fmt.Fprintf(c.out, "%s; %d files of %d bytes are new", describeFiles(r.Info), r.Copied, r.CopiedBytes)
	if r.Replaced > 0 {
		fmt.Fprintf(c.out, "; damaged files replaced: %d", r.Replaced)
	}
	fmt.Fprintln(c.out)
	return err
}

// runRestoreFiles makes a database of a file backup.
func runRestoreFiles(ctx context.Context, c *call, args []string) error {
	id := c.flags.String("id", "", "restore the backup with this `ID` instead of the newest")
	rest, err := c.parse(args, 2, 2)
	if err != nil {
		return err
	}
	info, err := filebackup.Restore(ctx, filebackup.Dir(nil, rest[0]), *id, rest[1],
		filebackup.RestoreOptions{Keys: c.keys()})
	if err != nil {
		return err
	}
	fmt.Fprintln(c.out, "restored", describeFiles(info))
	if _, err := os.Stat(filepath.Join(rest[1], "KEYS")); err == nil && c.keyFile == "" {
		fmt.Fprintf(c.err, "stoat: warning: without -key-file, %s has the identity of all databases restored of this backup. An incremental backup of one must not follow a backup of another.\n", rest[1])
	}
	return nil
}

// runVerifyFiles reads every byte of file backups.
func runVerifyFiles(ctx context.Context, c *call, args []string) error {
	rest, err := c.parse(args, 1, -1)
	if err != nil {
		return err
	}
	store, ids := filebackup.Dir(nil, rest[0]), rest[1:]
	if len(ids) == 0 {
		ids = []string{""}
	}
	for _, id := range ids {
		info, err := filebackup.Verify(ctx, store, id)
		if errors.Is(err, stoat.ErrCorrupt) && info.ID != "" { // the list of files is intact
			return fmt.Errorf("%w\n'stoat backup-files -verify DIR %s' replaces the damaged files that the database still has", err, rest[0])
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(c.out, describeFiles(info))
	}
	return nil
}

// A noStoreError names a directory that is no store, or does not exist.
type noStoreError string

func (dir noStoreError) Error() string {
	return fmt.Sprintf("there is no store of file backups in %s; 'stoat backup-files' makes one", string(dir))
}

// storeExists returns an error if a directory is no store. A prune would make it one.
func storeExists(dir string) error {
	for _, part := range []string{"lists", "claims"} { // one at least, from the first backup on
		name := filepath.Join(dir, part)
		info, err := os.Stat(name)
		switch {
		case err == nil && info.IsDir():
			return nil
		case err == nil:
			return fmt.Errorf("%s is not a directory, as in a store of file backups", name)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return noStoreError(dir)
}

// deleteBackup deletes a backup, which must exist. Its files stay until a prune.
func deleteBackup(ctx context.Context, store filebackup.Store, dir, id string) error {
	if _, err := os.Stat(filepath.Join(dir, "lists", id)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", filebackup.ErrNoBackup, id)
	}
	return filebackup.Delete(ctx, store, id)
}

// runBackups lists file backups, and deletes old ones.
func runBackups(ctx context.Context, c *call, args []string) error {
	keep := c.flags.Int("keep", 0, "delete all but the newest `number` of backups")
	id := c.flags.String("delete", "", "first delete the backup with this `ID`, which may be damaged")
	rest, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	given := c.given()["keep"]
	if given && *keep < 1 {
		return c.usagef("-keep is %d, want at least 1", *keep)
	}
	if err := storeExists(rest[0]); err != nil {
		return err
	}
	store := filebackup.Dir(nil, rest[0])
	if *id != "" {
		if err := deleteBackup(ctx, store, rest[0], *id); err != nil {
			return err
		}
		fmt.Fprintf(c.out, "deleted backup %s\n", *id)
	}
	if given {
		r, err := filebackup.Prune(ctx, store, *keep)
		if err == nil || len(r.Backups) > 0 || r.Files > 0 {
			fmt.Fprintf(c.out, "deleted %d backups and %d files of %d bytes\n", len(r.Backups), r.Files, r.Bytes)
		}
		if err != nil {
			return err
		}
		if r.Busy {
			fmt.Fprintln(c.out, "a backup is under way, so no files were deleted")
		}
	}
	infos, err := filebackup.List(ctx, store)
	for _, info := range infos {
		fmt.Fprintln(c.out, describeFiles(info))
	}
	return err
}
