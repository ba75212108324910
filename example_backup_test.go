package stoat_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func ExampleDB_Stream() {
	db, err := stoat.Open("/fruit", &stoat.Options{FS: memfs.New()})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	err = db.Update(func(tx stoat.Txn) error {
		for _, name := range []string{"fruit/apple", "fruit/pear", "nut/hazel"} {
			if err := tx.Set([]byte(name), []byte("ripe")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	var passed atomic.Int64
	o := stoat.StreamOptions{Ordered: true, Choose: func(key []byte) bool { // on many goroutines
		passed.Add(1)
		return !bytes.HasSuffix(key, []byte("pear"))
	}}
	o.Prefix = []byte("fruit/")
	version, err := db.Stream(context.Background(), o, func(b *stoat.StreamBatch) error { // on one
		for _, item := range b.Items {
			fmt.Printf("%s = %s\n", item.Key, item.Value)
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(passed.Load(), "keys at version", version)

	// What has changed since then, deletions included.
	if err := db.Update(func(tx stoat.Txn) error { return tx.Delete([]byte("nut/hazel")) }); err != nil {
		panic(err)
	}
	o = stoat.StreamOptions{Deletions: true}
	o.Since = version
	_, err = db.Stream(context.Background(), o, func(b *stoat.StreamBatch) error {
		for _, item := range b.Items {
			fmt.Printf("%s deleted: %t\n", item.Key, item.Deleted)
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// fruit/apple = ripe
	// 2 keys at version 1
	// nut/hazel deleted: true
}

func ExampleDB_Backup() {
	ctx, disk := context.Background(), memfs.New()
	db, err := stoat.Open("/shop", &stoat.Options{FS: disk})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	set := func(key, value string) {
		if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte(key), []byte(value)) }); err != nil {
			panic(err)
		}
	}
	set("price", "10")
	set("name", "soap")
	var full, later bytes.Buffer // usually files
	info, err := db.Backup(ctx, &full, stoat.BackupOptions{})
	if err != nil {
		panic(err)
	}
	set("price", "12")
	info, err = db.Backup(ctx, &later, stoat.BackupOptions{Since: info})
	if err != nil {
		panic(err)
	}
	fmt.Println("new versions:", info.Entries, "unchanged keys:", info.Unchanged)

	o := stoat.RestoreOptions{Options: &stoat.Options{FS: disk}}
	if _, err := stoat.Restore(ctx, "/copy", o, &full, &later); err != nil {
		panic(err)
	}
	copied, err := stoat.Open("/copy", o.Options)
	if err != nil {
		panic(err)
	}
	defer copied.Close()
	err = copied.View(func(tx stoat.Txn) error {
		for key, value := range tx.All() {
			fmt.Printf("%s = %s\n", key, value)
		}
		return tx.Err()
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// new versions: 1 unchanged keys: 1
	// name = soap
	// price = 12
}

// A checkpoint is a database of its own.
func ExampleDB_Checkpoint() {
	ctx, disk := context.Background(), memfs.New()
	db, err := stoat.Open("/shop", &stoat.Options{FS: disk})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	err = db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("price"), []byte("10")) })
	if err != nil {
		panic(err)
	}
	if err := db.Checkpoint(ctx, "/copy"); err != nil {
		panic(err)
	}
	copied, err := stoat.Open("/copy", &stoat.Options{FS: disk, MustExist: true})
	if err != nil {
		panic(err)
	}
	defer copied.Close()
	report, err := copied.Check(ctx, stoat.CheckOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println("versions in tables:", report.Entries, "problems:", len(report.Problems))
	// Output: versions in tables: 1 problems: 0
}

func ExampleVerifyBackup() {
	ctx := context.Background()
	db, err := stoat.Open("/shop", &stoat.Options{FS: memfs.New()})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("price"), []byte("10")) }); err != nil {
		panic(err)
	}
	var backup bytes.Buffer // usually a file
	if _, err := db.Backup(ctx, &backup, stoat.BackupOptions{}); err != nil {
		panic(err)
	}
	info, err := stoat.VerifyBackup(ctx, bytes.NewReader(backup.Bytes()))
	fmt.Println("version", info.Version, err)

	backup.Truncate(backup.Len() - 1)
	_, err = stoat.VerifyBackup(ctx, &backup)
	fmt.Println(errors.Is(err, stoat.ErrCorrupt))
	// Output:
	// version 1 <nil>
	// true
}

func ExampleUpgrade() {
	disk := memfs.New()
	db, err := stoat.Open("/shop", &stoat.Options{FS: disk})
	if err != nil {
		panic(err)
	}
	if err := db.Close(); err != nil {
		panic(err)
	}
	report, err := stoat.Upgrade("/shop", &stoat.Options{FS: disk})
	if err != nil {
		panic(err)
	}
	fmt.Println("changed:", report.Was.Version != report.Now.Version)
	// Output: changed: false
}
