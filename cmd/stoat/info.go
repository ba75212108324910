package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/newdir"
	"github.com/stoatdb/stoat/internal/seal"
)

// A description is what the command info prints.
type description struct {
	Directory string     `json:"directory"`
	Files     []fileKind `json:"files"`
	// MasterKey is the ID of the master key, empty if the database is not encrypted.
	MasterKey string `json:"master_key,omitempty"`
	DataKeys  int    `json:"data_keys,omitempty"`
	// Contents is nil if the database cannot be opened. Error says why.
	Contents *contents `json:"contents,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// A fileKind is all files of one kind in the directory.
type fileKind struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	Bytes int64  `json:"bytes"`
}

// contents are what only an open database tells.
type contents struct {
	Format    int                 `json:"format"`
	Features  []string            `json:"features"` // that a program must know
	Version   uint64              `json:"version"`
	Keyspaces []describedKeyspace `json:"keyspaces"`
	// Values are bytes of values in value files, and Garbage those that nothing refers to.
	Values  int64 `json:"value_bytes"`
	Garbage int64 `json:"garbage_bytes"`
}

// A describedKeyspace is a keyspace with its settings, and about what it holds.
type describedKeyspace struct {
	Name                string `json:"name"`
	Keys                int64  `json:"keys"`
	Bytes               int64  `json:"bytes"`
	Versions            int    `json:"versions"`
	Compression         string `json:"compression"`
	ValueThreshold      int64  `json:"value_threshold"`
	LargeValueThreshold int64  `json:"large_value_threshold"`
	DefaultTTL          string `json:"default_ttl,omitempty"`
	MergeFunction       string `json:"merge_function,omitempty"`
	Filter              string `json:"filter,omitempty"`
}

// describeKeyspace combines what the database says about a keyspace.
func describeKeyspace(k stoat.KeyspaceInfo, e stoat.RangeEstimate) describedKeyspace {
	s := k.Settings
	d := describedKeyspace{Name: k.Name, Keys: e.Keys, Bytes: e.Bytes, Versions: s.NumVersions, Compression: s.Compression.String(),
		ValueThreshold: s.ValueThreshold, LargeValueThreshold: s.LargeValueThreshold, MergeFunction: s.MergeFunction, Filter: s.Filter}
	if s.DefaultTTL > 0 {
		d.DefaultTTL = s.DefaultTTL.String()
	}
	return d
}

// runInfo describes a database: its files, and its contents as far as it can be opened.
func runInfo(_ context.Context, c *call, args []string) error {
	var asJSON bool
	c.flags.BoolVar(&asJSON, "json", false, "print a JSON object")
	rest, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	d := description{Directory: rest[0]}
	if err := d.addFiles(); errors.Is(err, fs.ErrNotExist) {
		return noDatabaseError(rest[0])
	} else if err != nil {
		return err
	}
	if err := d.addKeys(); err != nil {
		return err
	}
	db, err := c.openBeside(rest[0])
	failed := with(db, err, d.addContents)
	if _, none := failed.(noDatabaseError); none {
		return failed
	}
	if failed != nil {
		d.Error = failed.Error()
	}
	if asJSON {
		e := json.NewEncoder(c.out)
		e.SetIndent("", "  ")
		return errors.Join(e.Encode(d), failed)
	}
	return errors.Join(d.print(c.out), failed)
}

// kinds are the kinds of files, by the beginning or the end of their names.
var kinds = []struct{ kind, prefix, suffix string }{
	{"tables", "", ".table"}, {"value files", "", ".values"}, {"log segments", "", ".log"},
	{"manifests", "MANIFEST-", ""}, {"keys", seal.KeysName, ""}, {"lock", newdir.LockName, ""}, {"other files", "", ""},
}

// addFiles counts the files. A process that writes the database may remove some meanwhile.
func (d *description) addFiles() error {
	entries, err := os.ReadDir(d.Directory)
	if err != nil {
		return err
	}
	groups := make([][]os.DirEntry, len(kinds))
	for _, e := range entries {
		for i, k := range kinds {
			if strings.HasPrefix(e.Name(), k.prefix) && strings.HasSuffix(e.Name(), k.suffix) {
				groups[i] = append(groups[i], e)
				break
			}
		}
	}
	for i, group := range groups {
		bytes, err := sumOf(group)
		if err != nil {
			return err
		}
		if len(group) > 0 {
			d.Files = append(d.Files, fileKind{kinds[i].kind, len(group), bytes})
		}
	}
	return nil
}

// addKeys reads which master key protects the database. That needs no key.
func (d *description) addKeys() error {
	b, err := os.ReadFile(filepath.Join(d.Directory, seal.KeysName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// Opening the database reports damage.
	if keys, err := seal.Inspect(b); err == nil {
		d.MasterKey, d.DataKeys = keys.MasterID, keys.Count
	}
	return nil
}

// addContents adds what an open database tells.
func (d *description) addContents(db *stoat.DB) error {
	s := db.Stats()
	t := &contents{Format: db.Format().Version, Features: append([]string{}, db.Format().RequiredFeatures...), Version: s.Version,
		Values: s.ValueContent, Garbage: s.ValueGarbage}
	all, err := db.Keyspaces()
	for _, k := range all {
		var ks *stoat.Keyspace
		if err == nil && k.Name != "" {
			ks, err = db.Keyspace(k.Name, nil)
		}
		if err == nil {
			var e stoat.RangeEstimate
			e, err = db.EstimateRange(ks, nil, nil)
			t.Keyspaces = append(t.Keyspaces, describeKeyspace(k, e))
		}
	}
	d.Contents = t
	return err
}

// print prints the description as text.
func (d *description) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var size int64
	for _, f := range d.Files {
		size += f.Bytes
	}
	fmt.Fprintf(w, "directory\t%s\t%s\n", d.Directory, bytesText(size))
	for _, f := range d.Files {
		fmt.Fprintf(w, "  %s\t%d\t%s\n", f.Kind, f.Count, bytesText(f.Bytes))
	}
	if d.MasterKey == "" {
		fmt.Fprintf(w, "encryption\tnone\n")
	} else {
		fmt.Fprintf(w, "encryption\tmaster key %q\t%d data keys\n", d.MasterKey, d.DataKeys)
	}
	if t := d.Contents; t != nil {
		t.print(w)
	}
	return w.Flush()
}

func (t *contents) print(w io.Writer) {
	fmt.Fprintf(w, "format\t%d\tfeatures: %s\n", t.Format, listOf(t.Features))
	fmt.Fprintf(w, "version\t%d\n", t.Version)
	fmt.Fprintf(w, "values in files\t%s\t%s garbage\n", bytesText(t.Values), bytesText(t.Garbage))
	fmt.Fprintf(w, "keyspaces\t%d\n", len(t.Keyspaces))
	for _, k := range t.Keyspaces {
		fmt.Fprintf(w, "  %s\tabout %d keys\t%s\t%s\n", keyspaceText(k.Name), k.Keys, bytesText(k.Bytes), k.settings())
	}
}

// settings returns the settings of a keyspace as text.
func (k *describedKeyspace) settings() string {
	text := fmt.Sprintf("versions %d, compression %s", k.Versions, k.Compression)
	for _, s := range []struct{ name, value string }{{"time to live", k.DefaultTTL}, {"merges by", k.MergeFunction}, {"filter", k.Filter}} {
		if s.value != "" {
			text += ", " + s.name + " " + s.value
		}
	}
	return text
}
