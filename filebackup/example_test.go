package filebackup_test

import (
	"context"
	"fmt"
	"log"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/filebackup"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func Example() {
	if err := example(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// second backup: new files only: true
	// restored: two
}

func example(ctx context.Context) error {
	disk := memfs.New() // programs leave FS nil, and name directories of the disk
	db, err := stoat.Open("/db", &stoat.Options{FS: disk})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // an example
	store := filebackup.Dir(disk, "/backups")
	for i, value := range []string{"one", "two"} {
		err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), []byte(value)) })
		if err != nil {
			return err
		}
		r, err := filebackup.Backup(ctx, db, store, filebackup.Options{FS: disk, Temp: "/db.temp"})
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Println("second backup: new files only:", r.Copied < r.Files)
		}
	}
	// Keep the newest 30 backups.
	if _, err := filebackup.Prune(ctx, store, 30); err != nil {
		return err
	}
	// An empty ID is the newest backup.
	if _, err := filebackup.Restore(ctx, store, "", "/restored", filebackup.RestoreOptions{FS: disk}); err != nil {
		return err
	}
	restored, err := stoat.Open("/restored", &stoat.Options{FS: disk})
	if err != nil {
		return err
	}
	defer func() { _ = restored.Close() }() // it was only read
	return restored.View(func(tx stoat.Txn) error {
		value, err := tx.Get([]byte("key"))
		fmt.Printf("restored: %s\n", value)
		return err
	})
}
