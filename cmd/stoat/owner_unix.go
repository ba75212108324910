//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/newdir"
)

// checkUser returns an error if dir has files of a database, and none of them belongs to the
// user of this call. The user of the database could not open the files that this call makes.
func (c *call) checkUser(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // opening the database tells what is wrong
	}
	files := make([]ownedFile, 0, len(entries))
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // the process that writes the database has removed it
		}
		if s, known := info.Sys().(*syscall.Stat_t); known {
			files = append(files, ownedFile{e.Name(), s.Uid})
		}
	}
	owner, foreign := foreignOwner(files, uint32(c.user))
	if !foreign {
		return nil
	}
	return fmt.Errorf("no file of the database in %s belongs to uid %d: run the command as the user of the database, uid %d", dir, c.user, owner)
}

// An ownedFile is a file of a directory and the user that owns it.
type ownedFile struct {
	name string
	uid  uint32
}

// foreignOwner reports whether there are files of a database, and none of them belongs to user.
// The owner is that of the newest manifest, or of LOCK. No single file tells the user of the
// database: the directory may be a mount point, and a copy may have made LOCK. files ascend by
// name, so that manifests come last, and LOCK before them.
func foreignOwner(files []ownedFile, user uint32) (owner uint32, foreign bool) {
	for _, f := range files {
		if !isOfDatabase(f.name) {
			continue
		}
		if f.uid == user {
			return 0, false
		}
		owner, foreign = f.uid, true
	}
	return owner, foreign
}

// isOfDatabase reports whether a database gives a file this name.
func isOfDatabase(name string) bool {
	_, isLog := log.ParseFileName(name)
	return isLog || name == newdir.LockName || manifest.IsFileOfNew(name) && !strings.HasSuffix(name, ".tmp")
}
