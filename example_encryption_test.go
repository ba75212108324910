package stoat_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

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

// An operator puts a new key into the first line of the key file. Then the database no
// longer needs the old one.
func ExampleDB_RotateMasterKey() {
	dir, err := os.MkdirTemp("", "stoat-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	keyFile := dir + "/keys"
	write := func(lines ...string) {
		if err := os.WriteFile(keyFile, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	old, current := "2025 "+strings.Repeat("01", stoat.MasterKeySize), "2026 "+strings.Repeat("02", stoat.MasterKeySize)

	write(old)
	o := &stoat.Options{FS: memfs.New(), Keys: stoat.KeyFile(keyFile)}
	db, err := stoat.Open("/db", o)
	if err != nil {
		log.Fatal(err)
	}
	write(current, old)
	if err := db.RotateMasterKey(context.Background()); err != nil {
		log.Fatal(err)
	}
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}

	write(old)
	_, err = stoat.Open("/db", o)
	fmt.Println("the old key fails:", errors.Is(err, stoat.ErrKey))
	write(current)
	db, err = stoat.Open("/db", o)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the new key:", db.Close())
	// Output:
	// the old key fails: true
	// the new key: <nil>
}
