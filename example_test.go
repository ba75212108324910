package stoat_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/stoatdb/stoat"
)

func ExampleDB() {
	dir, err := os.MkdirTemp("", "stoat-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	db, err := stoat.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	// A transaction: everything in it happens, or nothing.
	err = db.Update(func(tx *stoat.Txn) error {
		if err := tx.Set([]byte("user:ann"), []byte("Ann")); err != nil {
			return err
		}
		if err := tx.Set([]byte("user:bob"), []byte("Bob")); err != nil {
			return err
		}
		return tx.Set([]byte("session:1"), []byte("ann"), stoat.TTL(time.Hour))
	})
	if err != nil {
		log.Fatal(err)
	}

	// A snapshot: it never blocks and is never blocked.
	err = db.View(func(tx *stoat.Txn) error {
		name, err := tx.Get([]byte("user:ann"))
		if err != nil {
			return err
		}
		fmt.Printf("found %s\n", name)

		_, err = tx.Get([]byte("user:carol"))
		fmt.Println("no carol:", errors.Is(err, stoat.ErrNotFound))

		for k, v := range tx.Prefix([]byte("user:")) {
			fmt.Printf("%s = %s\n", k, v)
		}
		return tx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// found Ann
	// no carol: true
	// user:ann = Ann
	// user:bob = Bob
}
