package stoat_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A program loads pairs in any order.
func ExampleDB_BulkLoad() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	words := func(yield func(stoat.Entry, error) bool) {
		for i, word := range []string{"pear", "apple", "fig", "apple"} {
			if !yield(stoat.Entry{Key: []byte(word), Value: fmt.Append(nil, i)}, nil) {
				return
			}
		}
	}
	if _, err := db.BulkLoad(context.Background(), words, stoat.IngestOptions{}); err != nil {
		log.Fatal(err)
	}
	err = db.View(func(tx stoat.Txn) error {
		for key, value := range tx.All() {
			fmt.Printf("%s %s\n", key, value)
		}
		return tx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// apple 3
	// fig 2
	// pear 0
}

// A program ingests sorted pairs. They are there at once, or not at all.
func ExampleDB_Ingest() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	numbers := func(yield func(key, value []byte) bool) {
		for i := range 1000 {
			if !yield(fmt.Appendf(nil, "%04d", i), fmt.Appendf(nil, "the square is %d", i*i)) {
				return
			}
		}
	}
	done, err := db.Ingest(context.Background(), numbers, stoat.IngestOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Entries, "entries in version", done.Version)
	err = db.View(func(tx stoat.Txn) error {
		value, err := tx.Get([]byte("0012"))
		fmt.Printf("%s\n", value)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	unsorted := func(yield func(key, value []byte) bool) {
		_ = yield([]byte("b"), nil) && yield([]byte("a"), nil)
	}
	_, err = db.Ingest(context.Background(), unsorted, stoat.IngestOptions{})
	var order *stoat.KeyOrderError
	if errors.As(err, &order) {
		fmt.Printf("entry %d has key %q after %q\n", order.Position, order.Key, order.Previous)
	}
	// Output:
	// 1000 entries in version 1
	// the square is 144
	// entry 1 has key "a" after "b"
}
