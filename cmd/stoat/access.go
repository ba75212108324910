package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoatdb/stoat"
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

// openToBackUp is openBeside. Only openToRead tells that the last writer crashed, so that the end
// of the log may not be durable. Then it is openToRead, and Backup returns ErrReadOnly. It is so
// too if there are too few file descriptors for a follower, or the file system cannot sync.
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
	return c.openBy(stoat.Open, dir, opts)
}

// openBy is open with a function that opens a database. There is a function merge.Last for each
// length of a list, and only the open database tells which ones it uses. If it uses any, openBy
// opens it again with them.
func (c *call) openBy(open func(dir string, opts *stoat.Options) (*stoat.DB, error), dir string, opts *stoat.Options) (*stoat.DB, error) {
	db, err := open(dir, c.withKeys(opts))
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

// withKeys gives the options the keys of the key file, if there is one, and the merge functions
// of this module that have one name.
func (c *call) withKeys(opts *stoat.Options) *stoat.Options {
	opts.MergeFunctions = []stoat.MergeFunction{merge.Append, merge.Counter, merge.Set}
	if c.keyFile != "" {
		opts.Keys = stoat.KeyFile(c.keyFile)
	}
	return opts
}

// unopened explains why the database in dir cannot be opened.
func (c *call) unopened(dir string, err error) error {
	switch {
	case errors.Is(err, stoat.ErrLocked):
		return explained{"another process uses the database in " + dir + ", and this command cannot run beside it", err}
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
func runCreate(_ context.Context, c *call, args []string) error {
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
	// Without a parent that can hold DIR, this error must not be that of a missing database.
	db, err = stoat.Open(dir, c.withKeys(&stoat.Options{}))
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

// runRekey protects a database with the current master key of the key file.
func runRekey(ctx context.Context, c *call, args []string) error {
	rest, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if c.keyFile == "" {
		return c.usagef("needs the flag -key-file")
	}
	db, err := c.openToWrite(rest[0])
	return with(db, err, func(db *stoat.DB) error { return db.RotateMasterKey(ctx) })
}

// runGet prints the bytes of a value, or with -hex a line.
func runGet(ctx context.Context, c *call, args []string) error {
	text, space := textFlag(c), keyspaceFlag(c)
	when := momentFlag(c, space, "read at")
	rest, err := c.parse(args, 2, 2)
	if err != nil {
		return err
	}
	key, err := text.decode(rest[1])
	if err != nil {
		return c.usagef("KEY: %v", err)
	}
	db, err := c.openBeside(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		return space.view(ctx, db, func(tx stoat.Txn) error {
			item, err := when.of(tx).GetItem(key)
			if errors.Is(err, stoat.ErrNotFound) {
				return fmt.Errorf("there is no key %s", rest[1])
			}
			if err != nil {
				return err
			}
			if text.hex {
				value, err := item.Value()
				if err != nil {
					return err
				}
				line, err := text.encodeLong(c.out, nil, value)
				if err == nil {
					_, err = c.out.Write(append(line, '\n'))
				}
				return err
			}
			value, err := item.Reader()
			if err == nil {
				_, err = io.Copy(c.out, value)
			}
			return err
		})
	})
}

// runSet stores a value.
func runSet(ctx context.Context, c *call, args []string) error {
	text, space := textFlag(c), keyspaceFlag(c)
	when := momentFlag(c, space, "write at")
	var ttl time.Duration
	c.flags.DurationVar(&ttl, "ttl", 0, "let the value expire after this `time`, such as 90s or 24h")
	rest, err := c.parse(args, 3, 3)
	if err != nil {
		return err
	}
	key, err := text.decode(rest[1])
	if err != nil {
		return c.usagef("KEY: %v", err)
	}
	if ttl < 0 {
		return c.usagef("-ttl is %v, want a positive time", ttl)
	}
	value, err := c.valueOf(rest[2], text)
	if err != nil {
		return err
	}
	var options []stoat.SetOption
	if ttl > 0 {
		options = append(options, stoat.TTL(ttl))
	}
	db, err := c.openToWrite(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		return space.update(ctx, db, func(tx stoat.Txn) error { return when.of(tx).SetReader(key, value, options...) })
	})
}

// valueOf returns a reader of the value of an argument; "-" means standard input. With
// -hex it decodes the argument or the input.
func (c *call) valueOf(arg string, text *textFormat) (io.Reader, error) {
	if arg == "-" && !text.hex {
		return c.in, nil
	}
	if arg == "-" {
		input, err := io.ReadAll(c.in)
		if err != nil {
			return nil, err
		}
		arg = string(input)
	}
	value, err := text.decode(arg)
	if err != nil {
		return nil, c.usagef("VALUE: %v", err)
	}
	return bytes.NewReader(value), nil
}

// runDel deletes keys in one transaction, all keys with a prefix, or a range. A
// key that does not exist is no error.
func runDel(ctx context.Context, c *call, args []string) error {
	text, space := textFlag(c), keyspaceFlag(c)
	when := momentFlag(c, space, "delete from")
	var prefix, span bool
	c.flags.BoolVar(&prefix, "prefix", false, "delete all keys that begin with a KEY, and reclaim their space")
	c.flags.BoolVar(&span, "range", false, "delete the keys from the first KEY (inclusive) to the second (exclusive); '' means no bound")
	rest, err := c.parse(args, 2, -1)
	if err != nil {
		return err
	}
	var keys [][]byte
	for _, arg := range rest[1:] {
		key, err := text.decode(arg)
		if err != nil {
			return c.usagef("KEY: %v", err)
		}
		if prefix && len(key) == 0 {
			return c.usagef("-prefix with an empty KEY; to delete everything use -range DIR '' ''")
		}
		keys = append(keys, key)
	}
	switch {
	case prefix && span:
		return c.usagef("use either -prefix or -range, not both")
	case when.set && (prefix || span):
		return c.usagef("-at goes with neither -prefix nor -range")
	case span && len(keys) != 2:
		return c.usagef("-range takes two keys, got %d", len(keys))
	}
	db, err := c.openToWrite(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		switch {
		case prefix:
			return dropPrefixes(ctx, db, space, keys)
		case span:
			return deleteRange(ctx, db, space, keys[0], keys[1])
		}
		return deleteKeys(ctx, db, space, when, keys)
	})
}

func deleteKeys(ctx context.Context, db *stoat.DB, space *keyspaceChoice, when *moment, keys [][]byte) error {
	return space.update(ctx, db, func(tx stoat.Txn) error {
		for _, key := range keys {
			if err := when.of(tx).Delete(key); err != nil {
				return err
			}
		}
		return nil
	})
}

func dropPrefixes(ctx context.Context, db *stoat.DB, space *keyspaceChoice, prefixes [][]byte) error {
	ks, _, err := space.find(db)
	if err != nil {
		return err
	}
	drop := db.DropPrefix
	if ks != nil {
		drop = ks.DropPrefix
	}
	for _, prefix := range prefixes {
		if err := drop(ctx, prefix); err != nil {
			return err
		}
	}
	return nil
}

func deleteRange(ctx context.Context, db *stoat.DB, space *keyspaceChoice, lo, hi []byte) error {
	if len(hi) == 0 {
		hi = nil
	}
	if _, timed, err := space.find(db); err == nil && timed {
		return fmt.Errorf("the keyspace %q has timestamps: -range cannot delete in it, only -at and -prefix can", space.name)
	}
	return space.update(ctx, db, func(tx stoat.Txn) error { return tx.DeleteRange(lo, hi) })
}
