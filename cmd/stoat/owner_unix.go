//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stoatdb/stoat/internal/engine"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
)

// checkUser returns an error if dir has files of a database, and none of them belongs to the
// user of this call. The user of the database could not open the files that this call makes. No
// single file tells that user: the directory may be a mount point, and a copy may have made LOCK.
func (c *call) checkUser(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // opening the database tells what is wrong
	}
	// Of these names, those of manifests are the last ones, and LOCK comes before them.
	owner, found := uint32(0), false
	for _, e := range entries {
		if !isOfDatabase(e.Name()) {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // the process that writes the database has removed it
		}
		s, known := info.Sys().(*syscall.Stat_t)
		if !known || s.Uid == uint32(c.user) {
			return nil
		}
		owner, found = s.Uid, true
	}
	if !found {
		return nil
	}
	return fmt.Errorf("no file of the database in %s belongs to uid %d: run the command as the user of the database, uid %d", dir, c.user, owner)
}

// isOfDatabase reports whether a database gives a file this name.
func isOfDatabase(name string) bool {
	_, isLog := log.ParseFileName(name)
	return isLog || name == engine.LockName || manifest.IsFileOfNew(name) && !strings.HasSuffix(name, ".tmp")
}
