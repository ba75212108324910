//go:build linux || darwin || freebsd

package vfs

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MkdirAll creates one level at a time and syncs its parent before the next level. It
// also syncs the parent of the deepest level that existed: the process that created
// that level may have died before its own sync.
//
// After a failed sync, the next one may succeed without making the name durable. So
// MkdirAll removes the level whose sync fails, and the next MkdirAll enters it anew.
func (osFS) MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	missing, err := missingDirs(dir)
	if err != nil {
		return WrapError(OpMkdir, dir, err)
	}
	deepest := dir
	if len(missing) > 0 {
		deepest = filepath.Dir(missing[len(missing)-1])
	}
	if err := syncExistingParent(deepest); err != nil {
		return WrapError(OpMkdir, deepest, err)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		made, err := makeDir(missing[i])
		if err == nil {
			err = syncDir(filepath.Dir(missing[i]))
		}
		if err != nil {
			if made {
				_ = retryEINTR(func() error { return unix.Rmdir(missing[i]) }) // fails if another process uses it
			}
			return WrapError(OpMkdir, missing[i], err)
		}
	}
	return nil
}

// missingDirs returns those of dir and its parents that do not exist, deepest first.
func missingDirs(dir string) ([]string, error) {
	var missing []string
	for {
		var st unix.Stat_t
		err := retryEINTR(func() error { return unix.Stat(dir, &st) })
		if err == nil {
			if !isDir(&st) {
				return nil, errNotDir
			}
			return missing, nil
		}
		parent := filepath.Dir(dir)
		if err != unix.ENOENT || parent == dir {
			return nil, err
		}
		missing = append(missing, dir)
		dir = parent
	}
}

// syncExistingParent syncs the parent of a directory that existed already. It ignores a
// parent that this user may not read: then another user created the directory.
func syncExistingParent(dir string) error {
	err := syncDir(filepath.Dir(dir))
	if err == unix.EACCES || err == unix.EPERM {
		return nil
	}
	return err
}

// makeDir creates one directory with mode dirMode, whatever the umask. It succeeds if
// another process created the directory first; then made is false.
func makeDir(dir string) (made bool, err error) {
	err = retryEINTR(func() error { return unix.Mkdir(dir, dirMode) })
	if err != nil && err != unix.EEXIST {
		return false, err
	}
	made = err == nil
	var st unix.Stat_t
	if err := retryEINTR(func() error { return unix.Lstat(dir, &st) }); err != nil {
		return made, err
	}
	if !isDir(&st) {
		return made, errNotDir
	}
	if made && uint32(st.Mode)&0o777 != dirMode {
		// Chmod takes the name because a directory without permissions cannot be opened.
		return made, retryEINTR(func() error { return unix.Chmod(dir, dirMode) })
	}
	return made, nil
}
