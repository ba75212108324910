package stoat_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A conflictCase is a row of the table of conflicts in docs/guide.md, and what it says in
// code. The database has the keys a, c and e, and c is a counter.
type conflictCase struct {
	// A transaction does this, and another one commits that meanwhile.
	does, meanwhile string
	conflict        bool
	remark          string

	first, other func(tx stoat.Txn) error
}

// conflictCases are all rows. Each first transaction also sets the key "result", unless
// the row says that it writes nothing.
func conflictCases() []conflictCase {
	set := func(key string) func(tx stoat.Txn) error {
		return func(tx stoat.Txn) error { return tx.Set([]byte(key), []byte("other")) }
	}
	get := func(key string) func(tx stoat.Txn) error {
		return func(tx stoat.Txn) error {
			_, err := tx.Get([]byte(key))
			return absentIsFine(err)
		}
	}
	loop := func(o stoat.IterOptions, until string) func(tx stoat.Txn) error {
		return func(tx stoat.Txn) error {
			for k := range tx.Loop(o) {
				if string(k) == until {
					break
				}
			}
			return tx.Err()
		}
	}
	add := func(tx stoat.Txn) error { return tx.Merge([]byte("c"), merge.Add(1)) }
	return []conflictCase{
		{"reads a key", "sets the key", true, "", get("a"), set("a")},
		{"reads a key", "sets the key to the same value", true, "values are not compared", get("a"),
			func(tx stoat.Txn) error { return tx.Set([]byte("a"), []byte("value")) }},
		{"reads a key that is absent", "sets the key", true, "", get("b"), set("b")},
		{"reads a key", "deletes the key, or a range with it", true, "", get("a"),
			func(tx stoat.Txn) error { return tx.DeleteRange([]byte("a"), []byte("b")) }},
		{"reads a key", "merges into the key", true, "", get("c"), add},
		{"reads a key", "renews the key", true, "", get("a"),
			func(tx stoat.Txn) error { return tx.Renew([]byte("a"), stoat.TTL(time.Hour)) }},
		{"loops over a range", "sets a new key in the range", true, "", loop(stoat.IterOptions{Lower: []byte("a"), Upper: []byte("d")}, ""), set("b")},
		{"loops over keys without values", "changes only a value", true, "", loop(stoat.IterOptions{KeysOnly: true}, ""), set("c")},
		{"ends a loop early, at a key", "sets a key behind it", false, "the loop did not get there", loop(stoat.IterOptions{}, "c"), set("d")},
		{"seeks a key, and finds a later one", "sets a key between the two", true, "", func(tx stoat.Txn) error {
			it := tx.Iterator(stoat.IterOptions{})
			if !it.Seek([]byte("b")) || string(it.Key()) != "c" {
				return fmt.Errorf("at %q: %w", it.Key(), it.Err())
			}
			return it.Close()
		}, set("bb")},
		{"reads a key that it has set", "sets the key", false, "it read its own write", func(tx stoat.Txn) error {
			return errors.Join(set("b")(tx), get("b")(tx))
		}, set("b")},
		{"sets a key", "sets the key", false, "the later commit prevails", set("a"), set("a")},
		{"deletes a range", "sets a key in the range", false, "the later commit prevails",
			func(tx stoat.Txn) error { return tx.DeleteRange(nil, nil) }, set("b")},
		{"merges into a key", "merges into the key", false, "both count", add, add},
		{"reads one key, and sets another", "reads the other key, and sets the first", true, "no write skew",
			func(tx stoat.Txn) error { return errors.Join(get("a")(tx), set("e")(tx)) },
			func(tx stoat.Txn) error { return errors.Join(get("e")(tx), set("a")(tx)) }},
		{"reads a key", "sets other keys", false, "", get("a"), set("c")},
		{"reads, and writes nothing", "sets the key", false, "it saw its snapshot", get("a"), set("a")},
	}
}

func absentIsFine(err error) error {
	if errors.Is(err, stoat.ErrNotFound) {
		return nil
	}
	return err
}

func (c conflictCase) row() string {
	answer := "no"
	if c.conflict {
		answer = "yes"
	}
	if c.remark != "" {
		answer += ": " + c.remark
	}
	return fmt.Sprintf("| %s | %s | %s |\n", c.does, c.meanwhile, answer)
}

func TestGuide_EachRowOfTheTableOfConflictsIsTrue(t *testing.T) {
	t.Parallel()
	for _, c := range conflictCases() {
		t.Run(c.does+"/"+c.meanwhile, func(t *testing.T) {
			t.Parallel()
			db, err := stoat.Open("/db", &stoat.Options{FS: memfs.NewVolatile(),
				MergeFunction: merge.Counter.Name(), MergeFunctions: []stoat.MergeFunction{merge.Counter}})
			testkit.Must(t, err)
			defer db.Close()
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				return errors.Join(tx.Set([]byte("a"), []byte("value")), tx.Merge([]byte("c"), merge.Add(1)), tx.Set([]byte("e"), []byte("value")))
			}))
			first, err := db.Begin(stoat.ReadWrite)
			testkit.Must(t, err)
			testkit.Must(t, c.first(first))
			if !strings.Contains(c.does, "writes nothing") {
				testkit.Must(t, first.Set([]byte("result"), []byte("value")))
			}
			testkit.Must(t, db.Update(c.other))
			err = first.Commit()
			if c.conflict != errors.Is(err, stoat.ErrConflict) || !c.conflict && err != nil {
				t.Errorf("commit returns %v, conflict: %v", err, c.conflict)
			}
		})
	}
}

func TestGuide_ShowsTheTableOfConflicts(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("docs/guide.md")
	testkit.Must(t, err)
	want := "\n| a transaction | meanwhile, another one | conflict |\n|---|---|---|\n"
	for _, c := range conflictCases() {
		want += c.row()
	}
	_, got, _ := strings.Cut(string(guide), "<!-- conflicts: begin -->\n")
	got, _, _ = strings.Cut(got, "<!-- conflicts: end -->")
	if got != want+"\n" {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
}
