package stoat

import (
	"testing"

	"github.com/stoatdb/stoat/internal/work"
)

// The pages of a table that was read before are lost. A flush that looks there,
// for what its values replace, succeeds, and the process lives on.
func TestFlush_SurvivesALostPageThatItSamples(t *testing.T) {
	t.Parallel()
	const n = 2000
	dir := t.TempDir()
	db, err := openWith(dir, &Options{}, work.Executor{Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	set := func() {
		t.Helper()
		if err := db.Update(func(tx Txn) error {
			for i := range n {
				if err := tx.Set(memoryKey(i), make([]byte, 1<<10)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	set()
	mustFlush(t, db)
	lookUp := func(key []byte) error {
		return db.View(func(tx Txn) error {
			_, err := tx.Get(key)
			return err
		})
	}
	for i := range n {
		if err := lookUp(memoryKey(i)); err != nil {
			t.Fatal(err)
		}
	}
	mustCut(t, dir, 4096, ".table")
	if lookUp(memoryKey(n/2)) == nil {
		t.Fatal("a table that was cut is still read: a flush meets nothing")
	}
	set()
	mustFlush(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
