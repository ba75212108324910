package stoat_test

import (
	"fmt"
	"log"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// fruit opens a database with the prices of some fruit.
func fruit() *stoat.DB {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.NewVolatile()})
	if err != nil {
		log.Fatal(err)
	}
	err = db.Update(func(tx stoat.Txn) error {
		for key, value := range map[string]string{"apple": "3", "cherry": "9", "fig": "7", "pear": "4"} {
			if err := tx.Set([]byte(key), []byte(value)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	return db
}

// The key at or before a place, and its neighbours.
func ExampleIterator_Prev() {
	db := fruit()
	defer db.Close()
	err := db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{})
		defer it.Close()
		it.Seek([]byte("date"))
		fmt.Printf("at or after date: %s\n", it.Key())
		it.Prev()
		fmt.Printf("before it: %s\n", it.Key())
		it.Last()
		fmt.Printf("the last: %s\n", it.Key())
		return it.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// at or after date: fig
	// before it: cherry
	// the last: pear
}

func ExampleTxn_Loop() {
	db := fruit()
	defer db.Close()
	err := db.View(func(tx stoat.Txn) error {
		for key, value := range tx.Loop(stoat.IterOptions{Reverse: true, Upper: []byte("pear")}) {
			fmt.Printf("%s costs %s\n", key, value)
		}
		if err := tx.Err(); err != nil { // the next loop clears it
			return err
		}
		for key := range tx.Loop(stoat.IterOptions{KeysOnly: true, Prefix: []byte("a")}) {
			fmt.Printf("%s begins with a\n", key)
		}
		return tx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// fig costs 7
	// cherry costs 9
	// apple costs 3
	// apple begins with a
}

func ExampleTxn_GetMany() {
	db := fruit()
	defer db.Close()
	err := db.View(func(tx stoat.Txn) error {
		keys := [][]byte{[]byte("pear"), []byte("mango"), []byte("apple")}
		values, err := tx.GetMany(keys, nil)
		for i, value := range values {
			fmt.Printf("%s: %q, missing: %v\n", keys[i], value, value == nil)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// pear: "4", missing: false
	// mango: "", missing: true
	// apple: "3", missing: false
}

// A program reads a database in parts, for example on several goroutines.
func ExampleDB_SplitRange() {
	db := fruit()
	defer db.Close()
	e, err := db.EstimateRange(nil, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	cuts, err := db.SplitRange(nil, nil, nil, 2)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d keys, cut at %q\n", e.Keys, cuts)
	// Output: 4 keys, cut at ["fig"]
}

// A program shows the history of a key. NumVersions says how much of it is kept.
func ExampleIterOptions_allVersions() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New(), NumVersions: 3})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, price := range []string{"3", "4", "5"} {
		if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("apple"), []byte(price)) }); err != nil {
			log.Fatal(err)
		}
	}
	err = db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{AllVersions: true})
		defer it.Close()
		for it.Next() {
			fmt.Printf("%s at version %d: %s\n", it.Key(), it.Item().Version(), it.Value())
		}
		return it.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// apple at version 3: 5
	// apple at version 2: 4
	// apple at version 1: 3
}
