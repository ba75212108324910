package stoat_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"

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

// A feed ends with a GoneError if the database no longer keeps the next commit, and at an
// ingest. The program then copies what it follows, here the default keyspace, and subscribes
// after the copy. It stores the version once the copied commits are durable.
func ExampleDB_Subscribe_gone() {
	ctx := context.Background()
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	index, stored := map[string]string{}, uint64(0)
	apply := func(c feed.Change) error {
		switch c.Kind {
		case feed.Set:
			index[string(c.Key)] = string(c.Value)
		case feed.Delete:
			delete(index, string(c.Key))
		case feed.DeleteRange:
			maps.DeleteFunc(index, func(key, _ string) bool {
				return key >= string(c.Key) && (c.End == nil || key < string(c.End))
			})
		default: // Merge and Renew; the default keyspace is never dropped
			return fmt.Errorf("the index has no room for a %s", c.Kind)
		}
		return nil
	}
	follow := func() error { // until the index has all commits
		for c, err := range db.Subscribe(ctx, feed.Options{After: stored, Keyspaces: []string{""}}) {
			if err != nil {
				return err
			}
			for change, err := range c.Changes {
				if err == nil {
					err = apply(change)
				}
				if err != nil {
					return err
				}
			}
			if stored = c.Version; stored == db.Stats().Version {
				break
			}
		}
		return nil
	}
	copyAll := func(tx stoat.Txn) error {
		clear(index)
		for k, v := range tx.All() {
			index[string(k)] = string(v)
		}
		stored = tx.ReadVersion()
		return tx.Err()
	}

	loaded := func(yield func(k, v []byte) bool) { yield([]byte("a"), []byte("loaded")) }
	if _, err := db.Ingest(ctx, loaded, stoat.IngestOptions{}); err != nil {
		log.Fatal(err)
	}
	err = follow()
	if gone := new(feed.GoneError); errors.As(err, &gone) {
		fmt.Println("gone after version", gone.After)
		if err = db.View(copyAll); err == nil {
			err = db.Sync()
		}
	}
	if err != nil {
		log.Fatal(err)
	}
	err = db.Update(func(tx stoat.Txn) error {
		return errors.Join(tx.Delete([]byte("a")), tx.Set([]byte("b"), []byte("set")))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(follow(), index)
	// Output:
	// gone after version 0
	// <nil> map[b:set]
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
			if change.Kind == feed.Set { // a real index handles every kind
				index[string(change.Value)] = string(change.Key)
			}
		}
		break // a real index goes on
	}
	fmt.Println(index["brown"])
	// Output: colour
}
