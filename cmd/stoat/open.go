package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/merge"
)

// openToWrite opens the database in dir. It never creates one, because a mistyped
// path must not leave a new directory.
func (c *call) openToWrite(dir string) (*stoat.DB, error) {
	return c.open(dir, &stoat.Options{MustExist: true})
}

// openToRead opens the database in dir read-only, and keeps writers out.
func (c *call) openToRead(dir string) (*stoat.DB, error) {
	return c.open(dir, &stoat.Options{ReadOnly: true})
}

// openBeside opens the database in dir read-only. Another process may write it.
func (c *call) openBeside(dir string) (*stoat.DB, error) {
	return c.openBy(stoat.OpenFollower, dir, &stoat.Options{FollowEvery: -1})
}

// openToCheck is openToRead, or openBeside if another process writes the database. A follower
// checks less: neither the entries in the log nor unreferenced files.
func (c *call) openToCheck(dir string) (*stoat.DB, error) {
	db, err := c.openToRead(dir)
	if errors.Is(err, stoat.ErrLocked) {
		return c.openBeside(dir)
	}
	return db, err
}

// openToBackUp opens the database for a backup. Another process may write it. Only openToRead
// tells whether the last writer crashed: then Sync fails, because the end of the log may not be
// durable. In that case openToBackUp returns the read-only database, and Backup returns
// ErrReadOnly. It does the same if the database cannot be followed.
func (c *call) openToBackUp(dir string) (*stoat.DB, error) {
	db, err := c.openToRead(dir)
	if errors.Is(err, stoat.ErrLocked) {
		return c.openBeside(dir)
	}
	if err != nil || db.Sync() != nil {
		return db, err
	}
	beside, err := c.openBeside(dir)
	if err != nil {
		return db, nil
	}
	if beside.Sync() != nil {
		return db, beside.Close()
	}
	return beside, db.Close()
}

// open opens the database in dir and explains why it cannot.
func (c *call) open(dir string, opts *stoat.Options) (*stoat.DB, error) {
	if !opts.ReadOnly {
		if err := c.checkUser(dir); err != nil {
			return nil, err
		}
	}
	return c.openBy(stoat.Open, dir, opts)
}

// openBy opens the database with open. Each length of a list has its own function merge.Last. Only
// the open database tells which lengths it uses. If it uses any, openBy opens it again with their
// functions.
func (c *call) openBy(open func(dir string, opts *stoat.Options) (*stoat.DB, error), dir string, opts *stoat.Options) (*stoat.DB, error) {
	if opts.Keys == nil { // rekey has set them
		opts.Keys = c.keysOf(dir)
	}
	db, err := open(dir, withFunctions(opts))
	if err != nil {
		return nil, c.unopened(dir, err)
	}
	lists, err := listFunctions(db)
	if err == nil && len(lists) == 0 {
		return db, nil
	}
	if err = errors.Join(err, db.Close()); err == nil {
		opts.MergeFunctions = append(opts.MergeFunctions, lists...)
		db, err = open(dir, opts)
	}
	if err != nil {
		return nil, c.unopened(dir, err)
	}
	return db, nil
}

// listFunctions returns the functions merge.Last that the settings of a database name.
func listFunctions(db *stoat.DB) (lists []stoat.MergeFunction, err error) {
	all, err := db.Keyspaces()
	for _, k := range all {
		name := k.Settings.MergeFunction
		n, err := strconv.Atoi(name[strings.LastIndexByte(name, '.')+1:])
		if last := merge.Last(n); err == nil && last.Name() == name && !slices.Contains(lists, stoat.MergeFunction(last)) {
			lists = append(lists, last)
		}
	}
	return lists, err
}

// withFunctions gives the options the merge functions of this module that have one name.
func withFunctions(opts *stoat.Options) *stoat.Options {
	opts.MergeFunctions = []stoat.MergeFunction{merge.Append, merge.Counter, merge.Set}
	return opts
}

// keys returns the keys of the key file, nil without one. The first key is the current one.
func (c *call) keys() stoat.KeyProvider {
	if c.keyFile == "" {
		return nil
	}
	return stoat.KeyFile(c.keyFile)
}

// keysOf returns the keys of the key file for the database in dir, nil without one. A database
// that is opened with them keeps its master key, wherever in the file that is.
func (c *call) keysOf(dir string) stoat.KeyProvider {
	if c.keyFile == "" {
		return nil
	}
	return sameKey{c.keys(), dir}
}

// A sameKey provider has as its current key the master key that protects the database in dir.
type sameKey struct {
	stoat.KeyProvider
	dir string
}

// Current implements stoat.KeyProvider.
func (k sameKey) Current(ctx context.Context) (id string, key []byte, err error) {
	b, err := os.ReadFile(filepath.Join(k.dir, seal.KeysName))
	if err != nil {
		return "", nil, err
	}
	info, err := seal.Inspect(b)
	if err != nil {
		return "", nil, err
	}
	key, err = k.Key(ctx, info.MasterID)
	return info.MasterID, key, err
}

// unopened explains why the database in dir cannot be opened.
func (c *call) unopened(dir string, err error) error {
	switch {
	case errors.Is(err, stoat.ErrLocked):
		return explained{"another process uses the database in " + dir + ", and this command needs it for itself", err}
	case errors.Is(err, stoat.ErrKey) && c.keyFile == "":
		return explained{"the database in " + dir + " is encrypted: it needs the flag -key-file", err}
	case errors.Is(err, stoat.ErrKey):
		return fmt.Errorf("the key file %s: %w", c.keyFile, err)
	case errors.Is(err, fs.ErrNotExist):
		return noDatabaseError(dir)
	case errors.Is(err, stoat.ErrCorrupt):
		return fmt.Errorf("%w; %s", err, salvageHint)
	}
	return err
}

// An explained error has a text that replaces that of its cause.
type explained struct {
	text  string
	cause error
}

func (e explained) Error() string { return e.text }

func (e explained) Unwrap() error { return e.cause }

// salvageHint tells what to do about a damaged database.
const salvageHint = "'stoat salvage' copies what is left of a damaged database"

// A noDatabaseError names a directory that holds no database.
type noDatabaseError string

func (dir noDatabaseError) Error() string {
	return fmt.Sprintf("there is no database in %s; 'stoat create' makes one", string(dir))
}

// runCreate creates an empty database.
func runCreate(ctx context.Context, c *call, args []string) error {
	rest, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	dir := rest[0]
	db, err := c.openToRead(dir)
	if err == nil {
		return errors.Join(fmt.Errorf("there is a database in %s already", dir), db.Close())
	}
	if _, none := err.(noDatabaseError); !none {
		return err
	}
	o := &stoat.Options{Keys: c.keys()}
	if o.Keys != nil { // an Open that lacks the key would leave DIR
		if _, _, err := o.Keys.Current(ctx); err != nil {
			return c.unopened(dir, err)
		}
	}
	// Without a parent that can hold DIR, this error must not be that of a missing database.
	db, err = stoat.Open(dir, withFunctions(o))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = c.unopened(dir, err)
	}
	return with(db, err, func(*stoat.DB) error { return nil })
}

// with runs fn on an open database and closes it. err is the error of the open.
func with(db *stoat.DB, err error, fn func(*stoat.DB) error) error {
	if err != nil {
		return err
	}
	if err := fn(db); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := db.Close(); err != nil {
		return fmt.Errorf("the command has done its work, but closing the database failed: %w", err)
	}
	return nil
}
