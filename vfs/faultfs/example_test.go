package faultfs_test

import (
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// save is the code under test.
func save(fs vfs.FS) error {
	f, err := fs.Create("/a", vfs.CatTemp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte("hello"), 0)
	if err == nil {
		err = f.SyncData()
	}
	return errors.Join(err, f.Close())
}

// Makes every call of a run fail once.
func Example() {
	for n := int64(1); ; n++ {
		fs := faultfs.New(memfs.New())
		fault := fs.Add(faultfs.Rule{Nth: n, Err: vfs.ErrNoSpace})
		err := save(fs)
		if fault.Fired() == 0 {
			break // the run has fewer than n calls
		}
		fmt.Println(err, errors.Is(err, faultfs.ErrInjected))
	}
	// Output:
	// create /a: vfs: no space left true
	// write /a: vfs: no space left true
	// sync data /a: vfs: no space left true
	// close /a: vfs: no space left true
}
