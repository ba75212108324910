package quarantine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/testing/script"
	"github.com/stoatdb/stoat/vfs"
)

// TestQuarantine_Scripts runs the cases in testdata/notes. An error is corrupt=file,
// io=path or nospace=path. After a note the output is what the quarantine has.
func TestQuarantine_Scripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/notes", func(*testing.T) script.Handler {
		var q Quarantine
		var v *manifest.Version
		return func(t *testing.T, c *script.Command) string {
			switch c.Name {
			case "tables":
				var inputs []manifest.Place
				for _, n := range numbers(t, c.String("inputs", "")) {
					inputs = append(inputs, manifest.Place{Level: 1, Num: n})
				}
				q.NoteTables(inputs, mustError(c))
				return q.text()
			case "values":
				n := base.FileNum(c.Int(t, "file", 0))
				damaged := q.NoteValues(&manifest.ValueFile{Num: n + 10, File: n}, mustError(c))
				return fmt.Sprintf("damaged: %t\n%s", damaged, q.text())
			case "version":
				v = mustVersion(t, c)
				return ""
			case "garbage":
				return textOf(q.GarbageKept(v))
			case "kept":
				return textOf(q.ValuesKept(v, boundOf(c, "from"), boundOf(c, "to")))
			case "referred":
				var some []*manifest.ValueFile
				for _, n := range numbers(t, c.String("files", "")) {
					f, ok := v.Value(n)
					if !ok {
						t.Fatalf("%s: no value file %d", c.Pos, n)
					}
					some = append(some, f.ValueFile)
				}
				var others []string
				for _, f := range q.NoteReferred(some, v, mustError(c)) {
					others = append(others, fmt.Sprint(f.Num))
				}
				return fmt.Sprintf("others: %s\n%s", strings.Join(others, " "), q.text())
			}
			c.Unknown(t)
			return ""
		}
	})
}

// text lists what is in quarantine.
func (q *Quarantine) text() string {
	return fmt.Sprintf("tables %v, values %v", slices.Sorted(maps.Keys(q.Tables())), slices.Sorted(maps.Keys(q.Values())))
}

func textOf(err error) string {
	if err == nil {
		return "nothing"
	}
	return err.Error()
}

func boundOf(c *script.Command, name string) []byte {
	if b, ok := c.Lookup(name); ok {
		return []byte(b)
	}
	return nil
}

func mustError(c *script.Command) error {
	if name, ok := c.Lookup("corrupt"); ok {
		return fmt.Errorf("merge: %w", base.InFile(base.Corrupt(-1, "checksum", 1, 2), name))
	}
	if path, ok := c.Lookup("io"); ok {
		return fmt.Errorf("merge: %w", &vfs.PathError{Op: "read", Path: path, Err: vfs.ErrIO})
	}
	if path, ok := c.Lookup("nospace"); ok {
		return fmt.Errorf("merge: %w", &vfs.PathError{Op: "write", Path: path, Err: vfs.ErrNoSpace})
	}
	return errors.New("another reason")
}

func numbers(t *testing.T, list string) (all []base.FileNum) {
	t.Helper()
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, base.FileNum(n))
	}
	return all
}

// mustVersion returns the version of the input: tables of level 1 with their bounds,
// and value files.
func mustVersion(t *testing.T, c *script.Command) *manifest.Version {
	t.Helper()
	v := new(manifest.Version)
	for _, line := range c.Lines() {
		words := strings.Fields(line)
		n := numbers(t, words[1])[0]
		arg := func(name string) uint64 { return uint64((&script.Command{Args: words}).Int(t, name, 0)) }
		if words[0] == "values" {
			v.Values = append(v.Values, manifest.LiveValues{Live: arg("live"),
				ValueFile: &manifest.ValueFile{Num: n, File: base.FileNum(arg("file")), Bytes: arg("bytes")}})
			continue
		}
		table := &manifest.Table{Num: n, Level: 1, Smallest: []byte(words[2]), Largest: []byte(words[3])}
		var refs []manifest.ValueRef
		for _, to := range numbers(t, strings.TrimPrefix(words[4], "refers=")) {
			refs = append(refs, manifest.ValueRef{File: to, Bytes: 1})
		}
		table.Values = manifest.ValueRefsOf(refs...)
		v.Levels[1] = append(v.Levels[1], table)
	}
	return v
}

func TestQuarantine_ZeroValueIsEmpty(t *testing.T) {
	t.Parallel()
	var q Quarantine
	v := &manifest.Version{Values: []manifest.LiveValues{{ValueFile: &manifest.ValueFile{Num: 1, File: 1, Bytes: 9}}}}
	if len(q.Tables()) > 0 || len(q.Values()) > 0 || q.HasValues(v.Values[0].ValueFile) {
		t.Error("an empty quarantine has files")
	}
	if err := errors.Join(q.GarbageKept(v), q.ValuesKept(v, nil, nil)); err != nil {
		t.Error(err)
	}
}

func TestQuarantine_ARewrittenFileIsAnother(t *testing.T) {
	t.Parallel()
	var q Quarantine
	old := &manifest.ValueFile{Num: 1, File: 1}
	q.NoteValues(old, base.InFile(base.Corrupt(-1, "checksum", 1, 2), base.ValueName(1)))
	if !q.HasValues(old) || q.HasValues(&manifest.ValueFile{Num: 1, File: 2}) {
		t.Error("a file is known by its identity, not by its name")
	}
}

// Readers of the maps go on while files join, and none gets lost.
func TestQuarantine_FilesJoinBesideEachOther(t *testing.T) {
	t.Parallel()
	var q Quarantine
	var all sync.WaitGroup
	const files = 50
	for i := range base.FileNum(files) {
		n := i + 1
		all.Go(func() {
			q.NoteTables([]manifest.Place{{Num: n}}, base.InFile(base.Corrupt(-1, "checksum", 1, 2), base.TableName(n)))
		})
		all.Go(func() {
			q.NoteValues(&manifest.ValueFile{Num: n, File: n}, base.InFile(base.Corrupt(-1, "checksum", 1, 2), base.ValueName(n)))
			for range q.Tables() {
			}
		})
	}
	all.Wait()
	if len(q.Tables()) != files || len(q.Values()) != files {
		t.Errorf("%d tables and %d value files, want %d of each", len(q.Tables()), len(q.Values()), files)
	}
}
