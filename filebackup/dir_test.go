package filebackup_test

import (
	"testing"

	"github.com/stoatdb/stoat/filebackup"
	"github.com/stoatdb/stoat/filebackup/storetest"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestDir_KeepsThePromisesOfAStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) filebackup.Store { return filebackup.Dir(memfs.New(), "/backups/db") })
}

func TestDir_KeepsThePromisesOfAStoreOnADisk(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) filebackup.Store { return filebackup.Dir(nil, t.TempDir()) })
}
