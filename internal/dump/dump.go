package dump

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/newdir"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/vfs"
)

// Options say what to dump.
type Options struct {
	FS vfs.FS
	// Name is the path of the file. A sealed file needs the file KEYS beside it. Files of a
	// database are known by their names, and others by their content.
	Name string
	// Provider has the master keys of an encrypted database; it may be nil.
	Provider seal.Provider
	Out      io.Writer
	// JSON prints each line as a JSON object. Hex prints keys and values in hexadecimal.
	JSON, Hex bool
	// ValueMax is the number of bytes of a value that are shown.
	ValueMax int
}

// A dumper prints one file.
type dumper struct {
	output
	o    *Options
	name string // without the directory
	fs   vfs.FS // unseals files
	keys *seal.Keys
}

// ErrUnknown says that a file is of no known kind.
var ErrUnknown = errors.New("dump: no file of a database has this name, and no backup or file of sorted entries this beginning")

// errNoKey says that a file can be read only with a key.
var errNoKey = fmt.Errorf("%w: the file is sealed, and there is no key", base.ErrKey)

// Run prints a file.
func Run(ctx context.Context, o Options) error {
	d := &dumper{output: output{ctx: ctx, w: o.Out, json: o.JSON, hex: o.Hex}, o: &o, name: o.FS.Base(o.Name), fs: o.FS}
	if err := d.openKeys(ctx); err != nil {
		return err
	}
	table, isTable := base.ParseTableName(d.name)
	_, isValues := base.ParseValueName(d.name)
	_, isLog := log.ParseFileName(d.name)
	_, isManifest := manifest.ParseFileName(strings.TrimSuffix(d.name, ".tmp"))
	var err error
	switch {
	case isTable:
		err = d.table(table)
	case isValues:
		err = d.values()
	case isLog:
		err = d.records(record.TypeLog, d.transaction)
	case isManifest:
		err = d.records(record.TypeManifest, d.edit)
	case strings.TrimSuffix(d.name, ".tmp") == seal.KeysName:
		err = d.keyFile()
	case d.name == newdir.LockName:
		err = d.lock()
	default:
		err = d.stream()
	}
	if err == nil {
		err = d.err
	}
	return base.InFile(err, d.name)
}

// openKeys loads the keys of an encrypted database. Without a provider there are none.
func (d *dumper) openKeys(ctx context.Context) error {
	dir := d.o.FS.Dir(d.o.Name)
	if d.o.Provider == nil {
		return nil
	}
	keys, err := seal.Load(ctx, seal.Options{FS: d.o.FS, Dir: dir, Provider: d.o.Provider, Clock: base.SystemClock{}, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("open the keys in %s: %w", dir, err)
	}
	d.keys, d.fs = keys, keys.FS(d.o.FS)
	return nil
}

// sealer returns the keys of log and manifest, nil without encryption.
func (d *dumper) sealer() record.Sealer {
	if d.keys == nil {
		return nil
	}
	return d.keys
}

// version returns what the manifest beside the file says. It is empty if none is readable.
func (d *dumper) version() *manifest.Version {
	state, _ := manifest.LoadDamaged(d.fs, d.o.FS.Dir(d.o.Name), d.sealer()) // a part of it helps
	return cmp.Or(state.Version, new(manifest.Version))
}

// open opens the file. Without a provider, it returns ErrKey for a table or a value file of an
// encrypted database, whose pages would look damaged.
func (d *dumper) open(cat vfs.Category) (vfs.File, int64, error) {
	f, err := d.fs.Open(d.o.Name, cat)
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Size()
	if err == nil && d.keys == nil && (cat == vfs.CatTable || cat == vfs.CatValue) {
		err = d.checkPlain()
	}
	if err != nil {
		_ = f.Close() // it was only read
	}
	return fault.Tolerant(f), size, err
}

// checkPlain returns ErrKey if the directory of the file is that of an encrypted database.
func (d *dumper) checkPlain() error {
	sealed, err := seal.Exist(d.o.FS, d.o.FS.Dir(d.o.Name))
	if err == nil && sealed {
		err = errNoKey
	}
	return err
}

// shown returns the part of a value that is shown.
func (d *dumper) shown(value []byte) []byte { return value[:min(len(value), d.o.ValueMax)] }

// keyFile prints the file of data keys, without the keys.
func (d *dumper) keyFile() error {
	f, size, err := d.open(vfs.CatKeys)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	b := make([]byte, min(size, 1<<20))
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return err
	}
	info, err := seal.Inspect(b)
	if err := d.line("keys", "size", size, "checksum", verdict(err == nil), "master", info.MasterID, "count", info.Count, "error", failure(err)); err != nil {
		return err
	}
	if d.keys == nil || d.name != seal.KeysName {
		return nil
	}
	made := d.keys.Info().Made
	for _, id := range slices.Sorted(maps.Keys(made)) {
		if err := d.line("data key", "number", id, "made", made[id]); err != nil {
			return err
		}
	}
	return nil
}

// lock prints the lock file, which is empty.
func (d *dumper) lock() error {
	f, size, err := d.open(vfs.CatLock)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), d.line("lock", "size", size))
}
