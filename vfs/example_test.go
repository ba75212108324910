package vfs_test

import (
	"fmt"
	"io"
	"log"
	"os"
	"sync/atomic"

	"github.com/stoatdb/stoat/vfs"
)

// Writes a file that survives a power cut: both the contents and the name must be
// synced.
func Example() {
	dir, err := os.MkdirTemp("", "vfs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	fs := vfs.OS()
	f, err := fs.Create(fs.Join(dir, "greeting"), vfs.CatTemp)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("hello"), 0); err != nil {
		log.Fatal(err)
	}
	if err := f.SyncData(); err != nil {
		log.Fatal(err)
	}
	if err := fs.SyncDir(dir); err != nil {
		log.Fatal(err)
	}

	p := make([]byte, 5)
	if _, err := f.ReadAt(p, 0); err != nil && err != io.EOF {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", p)
	// Output: hello
}

// A countingFS counts the directories that it syncs. All other methods are those of the
// embedded file system.
type countingFS struct {
	vfs.FS
	syncs atomic.Int64
}

func (c *countingFS) SyncDir(dir string) error {
	c.syncs.Add(1)
	return c.FS.SyncDir(dir)
}

// Embeds a file system to change one of its methods.
func ExampleFS() {
	dir, err := os.MkdirTemp("", "vfs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	fs := &countingFS{FS: vfs.OS()}
	var _ vfs.FS = fs // stoat.Options.FS takes it
	if err := fs.SyncDir(dir); err != nil {
		log.Fatal(err)
	}
	fmt.Println(fs.syncs.Load(), "sync")
	// Output: 1 sync
}
