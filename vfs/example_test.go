package vfs_test

import (
	"fmt"
	"io"
	"log"
	"os"

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
