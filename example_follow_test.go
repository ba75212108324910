package stoat_test

import (
	"context"
	"fmt"
	"log"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// One process writes the database, and another one reads it meanwhile. Here both are one
// process.
func ExampleOpenFollower() {
	disk := memfs.New()
	db, err := stoat.Open("/db", &stoat.Options{FS: disk})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	follower, err := stoat.OpenFollower("/db", &stoat.Options{FS: disk})
	if err != nil {
		log.Fatal(err)
	}
	defer follower.Close()

	if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("answer"), []byte("42")) }); err != nil {
		log.Fatal(err)
	}
	// The follower would soon see the commit by itself.
	if err := follower.Refresh(context.Background()); err != nil {
		log.Fatal(err)
	}
	err = follower.View(func(tx stoat.Txn) error {
		value, err := tx.Get([]byte("answer"))
		fmt.Printf("version %d: %s\n", tx.ReadVersion(), value)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: version 1: 42
}
