package stoat_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/stoatdb/stoat"
)

// A transaction of Begin lives as long as the caller likes. Discard does nothing after
// Commit, so it may be deferred.
func ExampleDB_Begin() {
	db := fruit()
	defer db.Close()
	raise := func(key string) error {
		tx, err := db.Begin(stoat.ReadWrite)
		if err != nil {
			return err
		}
		defer tx.Discard()
		price, err := tx.GetCopy([]byte(key), nil)
		if errors.Is(err, stoat.ErrNotFound) {
			return fmt.Errorf("no price of %s", key)
		}
		if err != nil {
			return err
		}
		if err := tx.Set([]byte(key), append(price, '0')); err != nil {
			return err
		}
		return tx.Commit() // ErrConflict if another transaction changed the price
	}
	fmt.Println(raise("apple"))
	fmt.Println(raise("stone"))
	// Output:
	// <nil>
	// no price of stone
}

func ExampleDB_Check() {
	db := fruit()
	defer db.Close()
	report, err := db.Check(context.Background(), stoat.CheckOptions{})
	if errors.Is(err, stoat.ErrCorrupt) {
		for _, problem := range report.Problems {
			fmt.Println(problem) // names the file and the offset
		}
	}
	if err != nil {
		log.Fatal(err) // restore a backup, or see Salvage
	}
	fmt.Println(len(report.Problems), "problems")
	// Output: 0 problems
}

// A program that watches its database looks at a few of the figures.
func ExampleDB_Stats() {
	db := fruit()
	defer db.Close()
	s := db.Stats()
	fmt.Println("commits:", s.Commits, "conflicts:", s.Conflicts)
	fmt.Println("held snapshots:", s.Readers, "outdated for:", s.OldestAge)
	fmt.Println("waits for background jobs:", s.Waits)
	fmt.Println("disk nearly full:", s.DiskLow)
	// Output:
	// commits: 1 conflicts: 0
	// held snapshots: 0 outdated for: 0s
	// waits for background jobs: 0
	// disk nearly full: false
}
