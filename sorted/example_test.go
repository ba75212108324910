package sorted_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/sorted"
)

func Example() {
	dir, err := os.MkdirTemp("", "sorted-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	// A program without a database writes a file.
	part := filepath.Join(dir, "part-1")
	file, err := os.Create(part)
	if err != nil {
		log.Fatal(err)
	}
	w, err := sorted.NewWriter(file, sorted.Options{})
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
	if err := file.Close(); err != nil {
		log.Fatal(err)
	}

	// Another program takes it over, together with others.
	db, err := stoat.Open(filepath.Join(dir, "db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	done, err := sorted.Ingest(context.Background(), db, nil, []string{part}, stoat.IngestOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Entries, "entries")
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: 3 entries
}
