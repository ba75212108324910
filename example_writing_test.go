package stoat_test

import (
	"fmt"
	"io"
	"log"
	"strings"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A session lives on while its user is active. The value is not written again.
func ExampleTxn_Renew() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	session, end := []byte("session 1"), time.Date(2190, 1, 1, 0, 0, 0, 0, time.UTC)
	err = db.Update(func(tx stoat.Txn) error { return tx.Set(session, []byte("ann"), stoat.ExpiresAt(end)) })
	if err != nil {
		log.Fatal(err)
	}
	err = db.Update(func(tx stoat.Txn) error { return tx.Renew(session, stoat.ExpiresAt(end.AddDate(1, 0, 0))) })
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(func(tx stoat.Txn) error {
		item, err := tx.GetItem(session)
		if err != nil {
			return err
		}
		user, err := item.Value()
		fmt.Printf("%s until %d\n", user, item.ExpiresAt().UTC().Year())
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: ann until 2191
}

// Neither the writer nor the reader holds a long value in memory.
func ExampleTxn_SetReader() {
	db, err := stoat.Open("/films", &stoat.Options{FS: memfs.NewVolatile()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	film := io.MultiReader(strings.NewReader(strings.Repeat("frame ", 1_000_000)), strings.NewReader("The End"))
	err = db.Update(func(tx stoat.Txn) error { return tx.SetReader([]byte("film"), film) })
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(func(tx stoat.Txn) error {
		item, err := tx.GetItem([]byte("film"))
		if err != nil {
			return err
		}
		r, err := item.Reader()
		if err != nil {
			return err
		}
		if _, err := r.Seek(-7, io.SeekEnd); err != nil {
			return err
		}
		last, err := io.ReadAll(r)
		fmt.Printf("%d bytes, the last are %q\n", item.ValueSize(), last)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 6000007 bytes, the last are "The End"
}

// One goroutine has many commits under way. A sync of the device covers several of them.
func ExampleTxn_CommitAsync() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	const commits = 100
	done := make(chan error, commits)
	for i := range commits {
		tx, err := db.Begin(stoat.ReadWrite)
		if err != nil {
			log.Fatal(err)
		}
		if err := tx.Set(fmt.Appendf(nil, "event %d", i), []byte("happened")); err != nil {
			log.Fatal(err)
		}
		tx.CommitAsync(func(_ uint64, err error) { done <- err })
	}
	for range commits {
		if err := <-done; err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("version", db.Stats().Version)
	// Output: version 100
}

// longest is a merge function that keeps the longest word.
type longest struct{}

func (longest) Name() string { return "longest" }

func (longest) Merge(dst, key, existing []byte, operands [][]byte) ([]byte, error) {
	best := existing
	for _, word := range operands {
		if len(word) > len(best) {
			best = word
		}
	}
	return append(dst, best...), nil
}

// Combine makes it a stoat.OperandCombiner.
func (l longest) Combine(dst, key []byte, operands [][]byte) ([]byte, error) {
	return l.Merge(dst, key, nil, operands)
}

func ExampleOperandCombiner() {
	db, err := stoat.Open("/words", &stoat.Options{
		FS: memfs.New(), MergeFunction: "longest", MergeFunctions: []stoat.MergeFunction{longest{}},
	})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	for _, word := range []string{"otter", "wolverine", "mink"} {
		if err := db.Update(func(tx stoat.Txn) error { return tx.Merge([]byte("word"), []byte(word)) }); err != nil {
			panic(err)
		}
	}
	err = db.View(func(tx stoat.Txn) error {
		word, err := tx.Get([]byte("word"))
		fmt.Printf("%s\n", word)
		return err
	})
	if err != nil {
		panic(err)
	}
	// Output: wolverine
}

func ExampleOptions_events() {
	disk := memfs.New()
	open := func(versions int) {
		db, err := stoat.Open("/shop", &stoat.Options{FS: disk, NumVersions: versions, Events: func(e stoat.Event) {
			if e, ok := e.(stoat.SettingsChanged); ok {
				fmt.Println(e.Old.NumVersions, "to", e.New.NumVersions)
			}
		}})
		if err != nil {
			panic(err)
		}
		if err := db.Close(); err != nil { // delivers what is left
			panic(err)
		}
	}
	open(3)
	open(5)
	// Output: 3 to 5
}
