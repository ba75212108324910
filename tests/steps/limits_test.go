package steps

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Counters that have come to their ends.

func setOne(db *inside.DB, key string, size int) error {
	return db.Update(func(tx stoat.Txn) error { return tx.Set([]byte(key), []byte(strings.Repeat("v", size))) })
}

// wantOnly demands that the keys are there, and no others.
func wantOnly(t *testing.T, db *inside.DB, when string, keys ...string) {
	t.Helper()
	var got []string
	err := db.View(func(tx stoat.Txn) error {
		for k := range tx.All() {
			got = append(got, string(k))
		}
		return tx.Err()
	})
	if err != nil || fmt.Sprint(got) != fmt.Sprint(keys) {
		t.Errorf("%s: keys %v, want %v, error %v", when, got, keys, err)
	}
}

// After the last version there is none: the next commit is refused, and what
// was committed stays, in the log and in tables.
func TestLimits_TheLastVersionIsTheLast(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := openStillOn(t, disk)
	if err := db.Engine.Manifest.Append(manifest.Edit{
		LastSeq: manifest.Some(base.SeqNumMax - 2), FlushedSeq: manifest.Some(base.SeqNumMax - 2),
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openStillOn(t, disk)
	for _, key := range []string{"a", "b"} {
		if err := setOne(db, key, 10); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		when := fmt.Sprint("round ", round)
		for range 2 {
			if err := setOne(db, "c", 10); !errors.Is(err, commit.ErrVersionsSpent) {
				t.Errorf("%s: a commit after the last: %v", when, err)
			}
		}
		wantOnly(t, db, when, "a", "b")
		if round == 1 {
			mustFlush(t, db)
			wantOnly(t, db, "flushed", "a", "b")
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = openStillOn(t, disk)
	}
	wantOnly(t, db, "in the end", "a", "b")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// A pointer has 32 bits for the number of its value file. There are no more
// value files after that, rather than one with the number of another.
func TestLimits_ValueFilesEndWithTheNumbersThatPointersHold(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := openStillOn(t, disk)
	flushOne := func(key string) error {
		if err := setOne(db, key, 5000); err != nil {
			return err
		}
		if err := db.Engine.Commits.Rotate(true); err != nil {
			return err
		}
		_, err := db.Engine.Jobs.FlushNext()
		return err
	}
	if err := flushOne("first"); err != nil {
		t.Fatal(err)
	}
	// The table of a flush is begun after its value file.
	testkit.Must(t, db.Engine.Manifest.Append(manifest.Edit{NextFile: manifest.Some(uint64(math.MaxUint32))}))
	testkit.Must(t, db.Close())
	db = openStillOn(t, disk)
	if err := flushOne("last"); err != nil {
		t.Fatal(err)
	}
	if err := flushOne("none"); err == nil {
		t.Error("there is a value file with a number that no pointer holds")
	}
	if err := db.Update(func(tx stoat.Txn) error {
		return tx.SetReader([]byte("reader"), strings.NewReader(strings.Repeat("v", int(commit.ApartMin(db.Engine.Transactions.MemtableSize)))))
	}); err == nil {
		t.Error("there is a value file of a reader with a number that no pointer holds")
	}
	wantOnly(t, db, "afterwards", "first", "last", "none")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openStillOn(t, disk)
	wantOnly(t, db, "reopened", "first", "last", "none")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
