package stoat_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A layer chooses the timestamps. It reads at one timestamp, and commits at a later one
// unless another layer has committed between.
func ExampleTxn_At() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	accounts, err := db.Keyspace("accounts", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked})
	if err != nil {
		log.Fatal(err)
	}
	set := func(read, commit uint64, value string) error {
		return db.Update(func(tx stoat.Txn) error {
			before, after := tx.In(accounts).At(read), tx.In(accounts).At(commit)
			old, err := before.GetCopy([]byte("alice"), nil)
			if err != nil && !errors.Is(err, stoat.ErrNotFound) {
				return err
			}
			switch item, err := after.GetItem([]byte("alice")); {
			case err == nil && item.Timestamp() > read:
				return fmt.Errorf("version %d came between", item.Timestamp())
			case err != nil && !errors.Is(err, stoat.ErrNotFound):
				return err
			}
			return after.Set([]byte("alice"), fmt.Appendf(old, "[%s]", value))
		})
	}
	fmt.Println(set(10, 20, "at 20"))
	fmt.Println(set(10, 30, "at 30"))
	fmt.Println(set(20, 30, "at 30"))
	fmt.Println(set(4, 5, "at 5, late"))
	err = db.View(func(tx stoat.Txn) error {
		for _, timestamp := range []uint64{4, 10, 20, 30} {
			value, err := tx.In(accounts).At(timestamp).Get([]byte("alice"))
			fmt.Printf("%d: %s %v\n", timestamp, value, err)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// <nil>
	// version 20 came between
	// <nil>
	// <nil>
	// 4:  stoat: key not found
	// 10: [at 5, late] <nil>
	// 20: [at 20] <nil>
	// 30: [at 20][at 30] <nil>
}

// A layer lets the database drop what none of its readers can ask for.
func ExampleKeyspace_DiscardBelow() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	accounts, err := db.Keyspace("accounts", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked})
	if err != nil {
		log.Fatal(err)
	}
	err = db.Update(func(tx stoat.Txn) error {
		for _, timestamp := range []uint64{10, 20, 30} {
			if err := tx.In(accounts).At(timestamp).Set([]byte("alice"), fmt.Append(nil, timestamp)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := accounts.DiscardBelow(25); err != nil {
		log.Fatal(err)
	}
	err = db.View(func(tx stoat.Txn) error {
		_, err := tx.In(accounts).At(24).Get([]byte("alice"))
		fmt.Println("24 is discarded:", errors.Is(err, stoat.ErrTimestampDiscarded))
		value, err := tx.In(accounts).At(25).Get([]byte("alice"))
		fmt.Printf("25: %s %v\n", value, err)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 24 is discarded: true
	// 25: 20 <nil>
}

// A layer loads versions of many keys in bulk, in any order.
func ExampleDB_BulkLoad_timestamps() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	prices, err := db.Keyspace("prices", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked})
	if err != nil {
		log.Fatal(err)
	}
	versions := func(yield func(stoat.Entry, error) bool) {
		_ = yield(stoat.Entry{Key: []byte("pear"), Value: []byte("3"), Timestamp: 10}, nil) &&
			yield(stoat.Entry{Key: []byte("apple"), Value: []byte("1"), Timestamp: 10}, nil) &&
			yield(stoat.Entry{Key: []byte("apple"), Value: []byte("2"), Timestamp: 20}, nil)
	}
	done, err := db.BulkLoad(context.Background(), versions, stoat.IngestOptions{Keyspace: prices})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Entries, "versions")
	err = db.View(func(tx stoat.Txn) error {
		for key, value := range tx.In(prices).At(15).All() {
			fmt.Printf("%s %s\n", key, value)
		}
		return tx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 3 versions
	// apple 1
	// pear 3
}
