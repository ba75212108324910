package kill

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
)

// RunLeft commits transactions that mostly wait for no sync and are small. Now and then it
// copies the files of the database as they are: that is what would be left if the process
// ended now. A database that is opened on the copy must have every commit.
func RunLeft(seed uint64) (err error) {
	parent, err := Scratch("stoat-left-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(parent)) }()
	rng := rand.New(rand.NewPCG(seed, 58))
	fs := vfs.OS()
	dir, left := fs.Join(parent, "db"), fs.Join(parent, "left")
	db, err := stoat.Open(dir, &stoat.Options{Keys: testkit.KeysIf(seed%2 == 0)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for round := range 5 {
		for range 200 + rng.IntN(600) {
			if err := commitOne(db, rng); err != nil {
				return err
			}
		}
		if err := copyFiles(fs, dir, left); err != nil {
			return err
		}
		if err := sameContents(db, left, seed%2 == 0); err != nil {
			return fmt.Errorf("seed %d: what the process would leave after round %d: %w", seed, round, err)
		}
	}
	return nil
}

// commitOne writes one key.
func commitOne(db *stoat.DB, rng *rand.Rand) error {
	size, d := rng.IntN(1500), stoat.Buffered
	switch rng.IntN(50) {
	case 0:
		size = rng.IntN(30_000)
	case 1:
		d = stoat.Synced
	}
	key, value := testkit.Key(rng.IntN(1000)), testkit.RandomValue(rng, size)
	return db.Update(func(tx stoat.Txn) error { return tx.Set(key, []byte(value)) }, stoat.WithDurability(d))
}

// copyFiles makes a directory that holds the files of another one. It begins again if a
// background job has made or deleted files meanwhile.
func copyFiles(fs vfs.FS, from, to string) error {
	for {
		names, err := fs.List(from)
		if err == nil {
			err = os.RemoveAll(to)
		}
		if err == nil {
			err = fs.MkdirAll(to)
		}
		for _, name := range names {
			var content []byte
			if err == nil {
				content, err = testkit.ReadFile(fs, fs.Join(from, name))
			}
			if err == nil {
				err = testkit.WriteFile(fs, fs.Join(to, name), content)
			}
		}
		if err != nil && !errors.Is(err, vfs.ErrNotExist) {
			return err
		}
		after, err := fs.List(from)
		if err != nil || slices.Equal(names, after) {
			return err
		}
	}
}

// sameContents demands that a copy of a database has the same contents.
func sameContents(db *stoat.DB, dir string, encrypted bool) error {
	var want []model.Item
	err := db.View(func(tx stoat.Txn) (err error) {
		want, err = testkit.ScanAll(tx, stoat.IterOptions{})
		return err
	})
	if err != nil {
		return err
	}
	other, err := stoat.Open(dir, &stoat.Options{Keys: testkit.KeysIf(encrypted)})
	if err != nil {
		return err
	}
	err = other.View(func(tx stoat.Txn) error { return testkit.CompareScan(tx, stoat.IterOptions{}, want) })
	return errors.Join(err, other.Close())
}
