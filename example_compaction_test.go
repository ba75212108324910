package stoat_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A janitor drops drafts, and replaces e-mail addresses.
type janitor struct{}

func (janitor) Name() string { return "janitor" }

func (janitor) Filter(key []byte, v *stoat.FilterValue) (stoat.FilterDecision, []byte) {
	if bytes.HasPrefix(key, []byte("draft/")) {
		return stoat.FilterDrop, nil
	}
	value, err := v.Bytes()
	if err == nil && bytes.Contains(value, []byte("@")) {
		return stoat.FilterRewrite, []byte("(an address)")
	}
	return stoat.FilterKeep, nil
}

func ExampleFilter() {
	db, err := stoat.Open("/notes", &stoat.Options{
		FS: memfs.New(), Filter: janitor{}.Name(), Filters: []stoat.Filter{janitor{}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(tx stoat.Txn) error {
		for key, value := range map[string]string{"draft/1": "hm", "note/1": "buy apples", "note/2": "ann@example.com"} {
			if err := tx.Set([]byte(key), []byte(value)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Compactions in the background do this in their own time.
	if err := db.Compact(context.Background(), stoat.CompactOptions{}); err != nil {
		log.Fatal(err)
	}
	err = db.View(func(tx stoat.Txn) error {
		for key, value := range tx.All() {
			fmt.Printf("%s = %s\n", key, value)
		}
		return tx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// note/1 = buy apples
	// note/2 = (an address)
}
