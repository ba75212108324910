package stoat_test

import (
	"context"
	"fmt"
	"log"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A program follows the changes of the keys that begin with "user/". It stores the
// version of the last commit, and begins after it when it starts again.
func ExampleDB_Subscribe() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New(), ChangeRetention: 64 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, name := range []string{"alice", "bob"} {
		if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("user/"+name), []byte("here")) }); err != nil {
			log.Fatal(err)
		}
	}
	if err := db.Update(func(tx stoat.Txn) error { return tx.Delete([]byte("user/alice")) }); err != nil {
		log.Fatal(err)
	}
	stored := uint64(1) // what the program stored before it was started again
	for c, err := range db.Subscribe(context.Background(), feed.Options{After: stored, Prefix: []byte("user/")}) {
		if err != nil {
			log.Fatal(err)
		}
		for change, err := range c.Changes {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("version %d: %s %s %s\n", c.Version, change.Kind, change.Key, change.Value)
		}
		if stored = c.Version; stored == 3 {
			break
		}
	}
	// Output:
	// version 2: Set user/bob here
	// version 3: Delete user/alice
}

// Another process keeps an index of what the database has. It subscribes to a follower, so
// the process that writes need not know of it.
func ExampleDB_Subscribe_follower() {
	disk := memfs.New()
	db, err := stoat.Open("/db", &stoat.Options{FS: disk, ChangeRetention: 64 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	// In the other process:
	follower, err := stoat.OpenFollower("/db", &stoat.Options{FS: disk})
	if err != nil {
		log.Fatal(err)
	}
	defer follower.Close()

	if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("colour"), []byte("brown")) }); err != nil {
		log.Fatal(err)
	}
	index := map[string]string{}
	for c, err := range follower.Subscribe(context.Background(), feed.Options{}) {
		if err != nil {
			log.Fatal(err)
		}
		for change, err := range c.Changes {
			if err != nil {
				log.Fatal(err)
			}
			index[string(change.Value)] = string(change.Key)
		}
		break // a real index goes on
	}
	fmt.Println(index["brown"])
	// Output: colour
}
