package stoat_test

import (
	"context"
	"fmt"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func ExampleSalvage() {
	disk := memfs.New()
	db, err := stoat.Open("/damaged", &stoat.Options{FS: disk})
	if err != nil {
		panic(err)
	}
	if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), []byte("v")) }); err != nil {
		panic(err)
	}
	if err := db.Close(); err != nil {
		panic(err)
	}
	if err := disk.Remove("/damaged/MANIFEST-000001"); err != nil {
		panic(err)
	}

	report, err := stoat.Salvage(context.Background(), "/damaged", "/rescued", stoat.SalvageOptions{FS: disk})
	if err != nil {
		panic(err)
	}
	for _, lost := range report.Lost {
		fmt.Printf("lost: %s, keys %q to %q\n", lost.File, lost.From.Key, lost.To.Key)
	}
	fmt.Println("copied:", report.Entries)
	// Output: copied: 1
}
