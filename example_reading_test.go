package stoat_test

import (
	"encoding/binary"
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

// Seek finds the first key that is not before a place, and Prev the key before that.
func ExampleIterator_Prev() {
	db := fruit()
	defer db.Close()
	err := db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{})
		defer it.Close()
		if it.Seek([]byte("date")) {
			fmt.Printf("not before date: %s\n", it.Key())
		}
		if it.Prev() { // also if Seek found nothing
			fmt.Printf("before date: %s\n", it.Key())
		}
		if it.Last() {
			fmt.Printf("the last: %s\n", it.Key())
		}
		return it.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// not before date: fig
	// before date: cherry
	// the last: pear
}

// The newest entries of a prefix come first, if their keys end with a number of fixed width.
func ExampleTxn_Loop_newestFirst() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.NewVolatile()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	key := func(user string, n uint64) []byte { return binary.BigEndian.AppendUint64([]byte(user+"/"), n) }
	err = db.Update(func(tx stoat.Txn) error {
		for n := range uint64(300) {
			if err := tx.Set(key("ann", n), fmt.Append(nil, "message ", n)); err != nil {
				return err
			}
		}
		return tx.Set(key("bob", 7), []byte("hello"))
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(func(tx stoat.Txn) error {
		left := 3
		for _, message := range tx.Loop(stoat.IterOptions{Prefix: []byte("ann/"), Reverse: true}) {
			fmt.Printf("%s\n", message)
			if left--; left == 0 {
				break
			}
		}
		return tx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// message 299
	// message 298
	// message 297
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
