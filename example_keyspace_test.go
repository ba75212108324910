package stoat_test

import (
	"errors"
	"fmt"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func ExampleDB_Keyspace() {
	db, err := stoat.Open("/shop", &stoat.Options{FS: memfs.New()})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	prices, err := db.Keyspace("prices", &stoat.KeyspaceOptions{NumVersions: 10})
	if err != nil {
		panic(err)
	}
	// One transaction may write several keyspaces.
	err = db.Update(func(tx stoat.Txn) error {
		if err := tx.Set([]byte("soap"), []byte("in stock")); err != nil {
			return err
		}
		return tx.In(prices).Set([]byte("soap"), []byte("10"))
	})
	if err != nil {
		panic(err)
	}
	all, err := db.Keyspaces()
	if err != nil {
		panic(err)
	}
	for _, k := range all {
		fmt.Printf("%q keeps versions: %d\n", k.Name, k.Settings.NumVersions)
	}
	// Output:
	// "" keeps versions: 1
	// "prices" keeps versions: 10
}

func ExampleDB_DropKeyspace() {
	db, err := stoat.Open("/shop", &stoat.Options{FS: memfs.New()})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	carts, err := db.Keyspace("carts", nil)
	if err != nil {
		panic(err)
	}
	if err := db.DropKeyspace("carts"); err != nil {
		panic(err)
	}
	err = db.Update(func(tx stoat.Txn) error { return tx.In(carts).Set([]byte("ann"), []byte("soap")) })
	fmt.Println(errors.Is(err, stoat.ErrNoKeyspace))
	// Output: true
}
