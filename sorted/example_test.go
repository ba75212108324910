package sorted_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/sorted"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func Example() {
	// A program without a database writes a file.
	var file bytes.Buffer
	w, err := sorted.NewWriter(&file, sorted.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 3 {
		if err := w.Add(sorted.Entry{Key: fmt.Appendf(nil, "key%d", i), Value: []byte("value")}); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		log.Fatal(err)
	}
	// Another program takes it over, together with others.
	disk := memfs.New() // programs give nil, and name files of the disk
	part, err := disk.Create("/part-1", vfs.CatNone)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := part.WriteAt(file.Bytes(), 0); err != nil {
		log.Fatal(err)
	}
	if err := part.Close(); err != nil {
		log.Fatal(err)
	}
	db, err := stoat.Open("/db", &stoat.Options{FS: disk})
	if err != nil {
		log.Fatal(err)
	}
	done, err := sorted.Ingest(context.Background(), db, disk, []string{"/part-1"}, stoat.IngestOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Entries, "entries")
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: 3 entries
}
