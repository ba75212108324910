package behaviour

import (
	"errors"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Meetings of two transactions, step by step, on the keys a, b, d and z. The
// key c is absent.

// looks are ways for a transaction to learn something of the keys from b to e,
// and of which of b, c and d it has then learned something.
var looks = []struct {
	name    string
	look    func(tx stoat.Txn)
	learned string
}{
	{"get", func(tx stoat.Txn) { _, _ = tx.Get([]byte("b")) }, "b"},
	{"get of what is absent", func(tx stoat.Txn) { _, _ = tx.Get([]byte("c")) }, "c"},
	{"has", func(tx stoat.Txn) { _, _ = tx.Has([]byte("c")) }, "c"},
	{"item that nobody reads", func(tx stoat.Txn) { _, _ = tx.GetItem([]byte("d")) }, "d"},
	{"scan", scanning(stoat.IterOptions{}, 9), "b c d"},
	{"scan backwards", scanning(stoat.IterOptions{Reverse: true}, 9), "b c d"},
	{"scan of keys only", scanning(stoat.IterOptions{KeysOnly: true}, 9), "b c d"},
	{"scan of all versions", scanning(stoat.IterOptions{AllVersions: true}, 9), "b c d"},
	{"scan up to the first key", scanning(stoat.IterOptions{}, 1), "b"},
	{"scan up to the second key", scanning(stoat.IterOptions{}, 2), "b c d"},
	{"scan backwards up to the first key", scanning(stoat.IterOptions{Reverse: true}, 1), "d"},
	{"loop", func(tx stoat.Txn) {
		for range tx.Range([]byte("b"), []byte("e")) {
		}
	}, "b c d"},
	{"loop that ends early", func(tx stoat.Txn) {
		for range tx.Range([]byte("b"), []byte("e")) {
			break
		}
	}, "b"},
	{"loop over a prefix", func(tx stoat.Txn) {
		for range tx.Prefix([]byte("c")) {
		}
	}, "c"},
	{"seek", func(tx stoat.Txn) {
		tx.Iterator(stoat.IterOptions{}).Seek([]byte("c"))
	}, "c d"},
	{"seek in an empty range", func(tx stoat.Txn) {
		tx.Iterator(stoat.IterOptions{Lower: []byte("ba"), Upper: []byte("cz")}).First()
	}, "c"},
	{"seek there and elsewhere", func(tx stoat.Txn) {
		it := tx.Iterator(stoat.IterOptions{})
		it.Seek([]byte("c"))
		it.Seek([]byte("z"))
		it.Close()
	}, "c d"},
	{"iterator that stays where it is", func(tx stoat.Txn) { tx.Iterator(stoat.IterOptions{}) }, ""},
}

// scanning returns a scan of the keys from b to e that stops at an item. It
// moves, and asks neither for a key nor for a value.
func scanning(options stoat.IterOptions, stop int) func(tx stoat.Txn) {
	return func(tx stoat.Txn) {
		o := options // parallel tests share the function
		o.Lower, o.Upper = []byte("b"), []byte("e")
		it := tx.Iterator(o)
		for n := 0; n < stop && it.Next(); n++ {
		}
	}
}

// changes are what the other transaction does.
var changes = []struct {
	name, key string
	change    func(tx stoat.Txn) error
}{
	{"set", "b", func(tx stoat.Txn) error { return tx.Set([]byte("b"), []byte("new")) }},
	{"phantom", "c", func(tx stoat.Txn) error { return tx.Set([]byte("c"), []byte("new")) }},
	{"deletion", "d", func(tx stoat.Txn) error { return tx.Delete([]byte("d")) }},
}

func TestPhantom_ConflictsWithEveryMoveOverItsPlace(t *testing.T) {
	t.Parallel()
	for _, m := range []int{0, 3, 4} {
		t.Run(moves[m].name, func(t *testing.T) {
			t.Parallel()
			for _, l := range looks {
				for _, c := range changes {
					disk := memfs.New()
					db := testkit.OpenOn(t, disk, nil)
					setKeys(t, db, "a b d z")
					tx := testkit.Begin(t, db, stoat.ReadWrite)
					l.look(tx)
					testkit.Must(t, tx.Set([]byte("x"), nil))
					testkit.Must(t, db.Update(c.change))
					moves[m].move(t, disk, db)
					var want error
					if strings.Contains(l.learned, c.key) {
						want = stoat.ErrConflict
					}
					if err := tx.Commit(); !errors.Is(err, want) {
						t.Errorf("%s, then a %s of %s: commit returns %v, want %v", l.name, c.name, c.key, err, want)
					}
					testkit.Must(t, db.Close())
				}
			}
		})
	}
}

// Each of two transactions reads what the other one writes. In whatever order
// they come, the second one must not commit.
func TestWriteSkew_OneOfTwoCommits(t *testing.T) {
	t.Parallel()
	has := func(key string) func(stoat.Txn) { return func(tx stoat.Txn) { _, _ = tx.Has([]byte(key)) } }
	count := scanning(stoat.IterOptions{KeysOnly: true}, 9)
	set := func(key string) func(stoat.Txn) error {
		return func(tx stoat.Txn) error { return tx.Set([]byte(key), []byte("new")) }
	}
	remove := func(key string) func(stoat.Txn) error {
		return func(tx stoat.Txn) error { return tx.Delete([]byte(key)) }
	}
	for name, c := range map[string]struct {
		look  [2]func(stoat.Txn)
		write [2]func(stoat.Txn) error
	}{
		"each looks whether the other is on call, and leaves": {
			[2]func(stoat.Txn){has("d"), has("b")}, [2]func(stoat.Txn) error{remove("b"), remove("d")}},
		"each counts who is on call, and leaves": {
			[2]func(stoat.Txn){count, count}, [2]func(stoat.Txn) error{remove("b"), remove("d")}},
		"each makes what is absent if the other has not": {
			[2]func(stoat.Txn){has("cc"), has("c")}, [2]func(stoat.Txn) error{set("c"), set("cc")}},
		"each counts, and adds one": {
			[2]func(stoat.Txn){count, count}, [2]func(stoat.Txn) error{set("c"), set("cc")}},
		"each adds to what it has read": {
			[2]func(stoat.Txn){has("b"), has("b")}, [2]func(stoat.Txn) error{set("b"), set("b")}},
	} {
		for first := range 2 {
			db := testkit.OpenMem(t)
			setKeys(t, db, "a b d z")
			var tx [2]stoat.Txn
			for i := range tx {
				tx[i] = testkit.Begin(t, db, stoat.ReadWrite)
				c.look[i](tx[i])
				testkit.Must(t, c.write[i](tx[i]))
			}
			if err := tx[first].Commit(); err != nil {
				t.Errorf("%s: the first commit returns %v", name, err)
			}
			testkit.WantError(t, name+": the second commit", tx[1-first].Commit(), stoat.ErrConflict)
		}
	}
}
