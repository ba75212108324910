//go:build !linux && !darwin && !freebsd && !windows

package vfs

import (
	"errors"
	"os"
	"syscall"
)

func openFile(name string, flags int) (*os.File, error) { return os.OpenFile(name, flags, fileMode) }

func openLock(name string, flags int) (*os.File, error) { return openFile(name, flags) }

// lockFile fails. No portable call locks a file in a way that the end of the process
// releases. Databases in memory work nevertheless.
func lockFile(_ *os.File, shared bool) error { return ErrUnsupported }

func unlockFile(*os.File) error { return ErrUnsupported }

func syncFile(f *os.File) error { return f.Sync() }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return causeOf(err)
	}
	return errors.Join(causeOf(d.Sync()), causeOf(d.Close()))
}

func freeBytes(string) (uint64, error) { return 0, ErrUnsupported }

// classOf maps the causes that package io/fs does not know.
func classOf(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return ErrNoSpace
	}
	return nil
}

func isNotEmpty(err error) bool { return errors.Is(err, syscall.ENOTEMPTY) }
