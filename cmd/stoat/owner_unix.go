//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stoatdb/stoat/internal/engine"
)

// checkUser returns an error if another user than that of this process owns the database in
// dir. That user could not open the files that this process makes.
func checkUser(dir string) error { return checkOwner(dir, uint32(os.Geteuid())) }

// checkOwner is checkUser for a user. The lock file tells the owner: dir itself may have
// another one, as a mount point does. Without a lock file there is no check.
func checkOwner(dir string, user uint32) error {
	info, err := os.Stat(filepath.Join(dir, engine.LockName))
	if err != nil {
		return nil // opening the database tells what is wrong
	}
	if s, known := info.Sys().(*syscall.Stat_t); known && s.Uid != user {
		return fmt.Errorf("another user owns the database in %s: run the command as the user of the database, uid %d", dir, s.Uid)
	}
	return nil
}
