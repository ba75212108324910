package stoat_test

import (
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/merge"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func ExampleTxn_Merge() {
	db, err := stoat.Open("/counters", &stoat.Options{
		FS: memfs.New(), MergeFunction: merge.Counter.Name(), MergeFunctions: []stoat.MergeFunction{merge.Counter},
	})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	for range 3 {
		if err := db.Update(func(tx stoat.Txn) error { return tx.Merge([]byte("visits"), merge.Add(1)) }); err != nil {
			panic(err)
		}
	}
	err = db.View(func(tx stoat.Txn) error {
		v, err := tx.Get([]byte("visits"))
		if err != nil {
			return err
		}
		n, err := merge.Count(v)
		fmt.Println(n)
		return err
	})
	if err != nil {
		panic(err)
	}
	// Output: 3
}

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
	err = db.Update(func(tx stoat.Txn) error {
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

	// A snapshot: it never makes a commit wait.
	err = db.View(func(tx stoat.Txn) error {
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

// A database in memory lives as long as its file system. A test needs no directory for
// it.
func ExampleOptions_memory() {
	disk := memfs.NewVolatile()
	for _, name := range []string{"Ann", "Bob"} {
		db, err := stoat.Open("/db", &stoat.Options{FS: disk})
		if err != nil {
			log.Fatal(err)
		}
		err = db.Update(func(tx stoat.Txn) error { return tx.Set([]byte(name), nil) })
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(db.Stats().Version)
		if err := db.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 1
	// 2
}

// A test of a program cuts the power of a simulated disk. Then it opens the database on
// what the disk has kept.
func Example_powerCut() {
	disk := memfs.New()
	db, err := stoat.Open("/db", &stoat.Options{FS: disk})
	if err != nil {
		log.Fatal(err)
	}
	set := func(key string, durability stoat.Durability) {
		write := func(tx stoat.Txn) error { return tx.Set([]byte(key), []byte("value")) }
		if err := db.Update(write, stoat.WithDurability(durability)); err != nil {
			log.Fatal(err)
		}
	}
	set("synced", stoat.Synced)
	set("buffered", stoat.Buffered)

	// KeepNone loses everything that no sync has covered. memfs has many more kinds.
	after := disk.Crash(memfs.KeepNone, rand.New(rand.NewPCG(1, 1)))
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}

	db, err = stoat.Open("/db", &stoat.Options{FS: after})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx stoat.Txn) error {
		for key := range tx.All() {
			fmt.Printf("%s\n", key)
		}
		return tx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: synced
}

// A test of a program makes a write to the log fail. The program closes the database, opens
// it again, and looks whether its transaction is there.
func Example_failingWrite() {
	disk := faultfs.New(memfs.New())
	open := func() *stoat.DB {
		db, err := stoat.Open("/db", &stoat.Options{FS: disk})
		if err != nil {
			log.Fatal(err)
		}
		return db
	}
	has := func(db *stoat.DB, key string) (found bool, err error) {
		err = db.View(func(tx stoat.Txn) error {
			found, err = tx.Has([]byte(key))
			return err
		})
		return found, err
	}
	db := open()
	set := func(key string) error {
		return db.Update(func(tx stoat.Txn) error { return tx.Set([]byte(key), []byte("value")) })
	}
	fmt.Println("first:", set("first"))

	disk.Add(faultfs.Rule{Op: vfs.OpWrite, Category: vfs.CatLog})
	err := set("second")
	fmt.Println("second:", errors.Is(err, stoat.ErrFailed), errors.Is(err, faultfs.ErrInjected))
	err = set("third")
	fmt.Println("third:", errors.Is(err, stoat.ErrFailed))
	_, err = has(db, "first")
	fmt.Println("reads go on:", err == nil)
	fmt.Println("close:", errors.Is(db.Close(), stoat.ErrFailed))

	db = open()
	for _, key := range []string{"first", "second"} {
		found, err := has(db, key)
		fmt.Println("after opening again:", key, found, err)
	}
	fmt.Println("second:", set("second"))
	fmt.Println("close:", db.Close())
	// Output:
	// first: <nil>
	// second: true true
	// third: true
	// reads go on: true
	// close: true
	// after opening again: first true <nil>
	// after opening again: second false <nil>
	// second: <nil>
	// close: <nil>
}

// A transaction moves an order from one keyspace to another.
func ExampleTxn_In() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	pending, err := db.Keyspace("orders: pending", nil)
	if err != nil {
		log.Fatal(err)
	}
	history, err := db.Keyspace("orders: history", &stoat.KeyspaceOptions{
		Compression: stoat.CompressionSmall,
		DefaultTTL:  10 * 365 * 24 * time.Hour,
	})
	if err != nil {
		log.Fatal(err)
	}
	order := []byte("order 17")
	err = db.Update(func(tx stoat.Txn) error { return tx.In(pending).Set(order, []byte("3 apples")) })
	if err != nil {
		log.Fatal(err)
	}
	err = db.Update(func(tx stoat.Txn) error {
		what, err := tx.In(pending).Get(order)
		if err != nil {
			return err
		}
		if err := tx.In(history).Set(order, what); err != nil {
			return err
		}
		return tx.In(pending).Delete(order)
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(func(tx stoat.Txn) error {
		for _, ks := range []*stoat.Keyspace{pending, history} {
			ok, err := tx.In(ks).Has(order)
			if err != nil {
				return err
			}
			fmt.Println(ks.Name(), ok)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// orders: pending false
	// orders: history true
}

func ExampleDB_NewBatch() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New()})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	batch := db.NewBatch(stoat.BatchOptions{Pieces: true})
	defer batch.Discard()
	for i := range 100_000 {
		if batch.Set(fmt.Appendf(nil, "key-%06d", i), []byte("value")) != nil {
			break // Commit returns the error
		}
	}
	fmt.Println(batch.Commit())
	// Output: <nil>
}

// Without pieces, a batch is one commit or none.
func ExampleBatchOptions_atomic() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New()})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	batch := db.NewBatch(stoat.BatchOptions{Size: 1 << 20})
	defer batch.Discard()
	for i := range 1000 {
		if err := batch.Set(fmt.Appendf(nil, "key-%06d", i), make([]byte, 4<<10)); err != nil {
			fmt.Println(errors.Is(err, stoat.ErrBatchTooLarge)) // use Pieces, or db.Ingest
			break
		}
	}
	fmt.Println(errors.Is(batch.Commit(), stoat.ErrBatchTooLarge), db.Stats().Version)
	// Output:
	// true
	// true 0
}

// Update runs the function again after a conflict. Each run sees a new snapshot.
func ExampleRetries() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New()})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	set := func(stock string) error {
		return db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("stock"), []byte(stock)) })
	}
	if err := set("7"); err != nil {
		panic(err)
	}
	run := 0
	err = db.Update(func(tx stoat.Txn) error {
		stock, err := tx.Get([]byte("stock"))
		if err != nil {
			return err
		}
		run++
		fmt.Printf("run %d sees %s\n", run, stock)
		if run == 1 { // now another transaction changes what this one has read
			if err := set("3"); err != nil {
				return err
			}
		}
		return tx.Set([]byte("offer"), stock)
	}, stoat.Retries(10))
	fmt.Println(err)
	// Output:
	// run 1 sees 7
	// run 2 sees 3
	// <nil>
}

func ExampleDB_Snapshot() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New()})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	set := func(value string) error {
		return db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), []byte(value)) })
	}
	if err := set("before"); err != nil {
		panic(err)
	}
	snapshot, err := db.Snapshot(stoat.SnapshotOptions{MaxAge: time.Hour})
	if err != nil {
		panic(err)
	}
	defer snapshot.Close()
	if err := set("after"); err != nil {
		panic(err)
	}
	err = snapshot.View(func(tx stoat.Txn) error {
		value, err := tx.Get([]byte("key"))
		fmt.Printf("%s\n", value)
		return err
	})
	if err != nil {
		panic(err)
	}
	// Output: before
}
