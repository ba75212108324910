package golden

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
)

// A refusing function has the name of merge.Append, and merges nothing. So operands stay
// in the tables.
type refusing struct{}

func (refusing) Name() string { return merge.Append.Name() }

func (refusing) Merge(dst, _, _ []byte, _ [][]byte) ([]byte, error) {
	return dst, errors.New("not now")
}

func createMerging(o *stoat.Options) {
	o.MergeFunction, o.MergeFunctions = merge.Append.Name(), []stoat.MergeFunction{refusing{}}
}

// longValue lies in a value file.
var longValue = bytes.Repeat([]byte("long "), 1000)

// writePartials makes partial entries in the last level, in level 0 and in the log: over
// short values, over values in value files, and over nothing.
func writePartials(t *testing.T, db *stoat.DB) {
	w := goldenWriter{t: t, db: db}
	update := func(write func(tx stoat.Txn) error) { testkit.Must(t, db.Update(write)) }
	operand := func(key, operand string) {
		update(func(tx stoat.Txn) error { return tx.Merge([]byte(key), []byte(operand)) })
	}
	renew := func(key string, at time.Time) {
		update(func(tx stoat.Txn) error { return tx.Renew([]byte(key), stoat.ExpiresAt(at)) })
	}
	update(func(tx stoat.Txn) error {
		return errors.Join(tx.Set([]byte("short"), []byte("s")), tx.Set([]byte("long"), longValue, stoat.UserMeta(5)),
			tx.Set([]byte("merged"), longValue), tx.Set([]byte("soon"), []byte("x"), stoat.ExpiresAt(goldenNow.Add(time.Minute))))
	})
	w.compact()
	for _, key := range []string{"short", "merged", "nothing"} {
		operand(key, "1")
		operand(key, "2")
	}
	renew("long", goldenLate) // compaction makes a pointer with the version of the record
	w.compact()
	update(func(tx stoat.Txn) error {
		return errors.Join(tx.Merge([]byte("short"), []byte("3")), tx.Merge([]byte("short"), []byte("4")),
			tx.Renew([]byte("short"), stoat.ExpiresAt(goldenLate)), tx.Renew([]byte("absent"), stoat.ExpiresAt(goldenLate)))
	})
	w.flush()
	operand("short", "5")
	operand("merged", "5")
	renew("soon", goldenLate)
}

func checkPartials(t *testing.T, db *stoat.DB, _ bool) {
	want := map[string]goldenItem{
		"short":   {value: []byte("s12345"), expires: goldenLate},
		"long":    {value: longValue, user: 5, expires: goldenLate},
		"merged":  {value: append(bytes.Clone(longValue), "125"...)},
		"nothing": {value: []byte("12")},
		"soon":    {value: []byte("x"), expires: goldenLate},
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{})
		defer it.Close()
		for it.Next() {
			item := it.Item()
			w, known := want[string(item.Key())]
			if v, err := item.Value(); err != nil || !known || !bytes.Equal(v, w.value) || item.UserMeta() != w.user || !item.ExpiresAt().Equal(w.expires) {
				t.Errorf("%s: %d bytes until %v, user %d, %v", item.Key(), len(v), item.ExpiresAt(), item.UserMeta(), err)
			}
			delete(want, string(item.Key()))
		}
		for key := range want {
			t.Errorf("%s is not there", key)
		}
		return it.Err()
	}))
}
