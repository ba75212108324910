package stoat_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func ExampleStaticKeys() {
	fs := memfs.NewVolatile()
	old := stoat.MasterKey{ID: "2025", Key: bytes.Repeat([]byte{1}, stoat.MasterKeySize)}
	db, err := stoat.Open("db", &stoat.Options{FS: fs, Keys: stoat.StaticKeys(old)})
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), []byte("secret")) }); err != nil {
		log.Fatal(err)
	}
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}
	_, err = stoat.Open("db", &stoat.Options{FS: fs})
	fmt.Println("opens without keys:", !errors.Is(err, stoat.ErrKey))

	// The first key is the current one: Open protects the database with it.
	current := stoat.MasterKey{ID: "2026", Key: bytes.Repeat([]byte{2}, stoat.MasterKeySize)}
	db, err = stoat.Open("db", &stoat.Options{FS: fs, Keys: stoat.StaticKeys(current, old)})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx stoat.Txn) error {
		value, err := tx.Get([]byte("k"))
		fmt.Printf("%s\n", value)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// opens without keys: false
	// secret
}
