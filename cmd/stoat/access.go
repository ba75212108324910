package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stoatdb/stoat"
)

// openExisting opens the database in dir. It never creates one, because a
// mistyped path must not leave a new directory.
func openExisting(dir string) (*stoat.DB, error) { return openExistingWith(dir, nil) }

// openExistingWith is like openExisting, with options.
func openExistingWith(dir string, opts *stoat.Options) (*stoat.DB, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no directory %s", dir)
	case err != nil:
		return nil, err
	case !slices.ContainsFunc(entries, isManifest):
		return nil, fmt.Errorf("there is no database in %s: no file begins with %s", dir, manifestPrefix)
	}
	return open(dir, opts)
}

// manifestPrefix begins the name of a manifest. Every database has one.
const manifestPrefix = "MANIFEST-"

func isManifest(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), manifestPrefix) }

// openToRead opens the database in dir read-only.
func openToRead(dir string) (*stoat.DB, error) {
	return openExistingWith(dir, &stoat.Options{ReadOnly: true})
}

// open opens the database in dir, or creates one.
func open(dir string, opts *stoat.Options) (*stoat.DB, error) {
	db, err := stoat.Open(dir, opts)
	if errors.Is(err, stoat.ErrLocked) {
		return nil, fmt.Errorf("another process uses the database in %s: %w", dir, err)
	}
	return db, err
}

// with runs fn on an open database and closes it. err is the error of the open.
func with(db *stoat.DB, err error, fn func(*stoat.DB) error) error {
	if err != nil {
		return err
	}
	return errors.Join(fn(db), db.Close())
}

// runGet prints the bytes of a value, or with -hex a line.
func runGet(ctx context.Context, c *call, args []string) error {
	text := textFlag(c)
	rest, err := c.parse(args, 2, 2)
	if err != nil {
		return err
	}
	key, err := text.decode(rest[1])
	if err != nil {
		return c.usagef("KEY: %v", err)
	}
	db, err := openToRead(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		return db.ViewContext(ctx, func(tx *stoat.Txn) error {
			value, err := tx.Get(key)
			if errors.Is(err, stoat.ErrNotFound) {
				return fmt.Errorf("there is no key %s", rest[1])
			}
			if err != nil {
				return err
			}
			if text.hex {
				value = append(text.encode(nil, value), '\n')
			}
			_, err = c.out.Write(value)
			return err
		})
	})
}

// runSet stores a value.
func runSet(ctx context.Context, c *call, args []string) error {
	text := textFlag(c)
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
	db, err := open(rest[0], nil)
	return with(db, err, func(db *stoat.DB) error {
		return db.UpdateContext(ctx, func(tx *stoat.Txn) error { return tx.Set(key, value, options...) })
	})
}

// valueOf returns the value of an argument; "-" means standard input. With -hex
// it decodes the argument or the input.
func (c *call) valueOf(arg string, text *textFormat) ([]byte, error) {
	if arg == "-" {
		value, err := io.ReadAll(c.in)
		if err != nil || !text.hex {
			return value, err
		}
		arg = string(value)
	}
	value, err := text.decode(arg)
	if err != nil {
		return nil, c.usagef("VALUE: %v", err)
	}
	return value, nil
}

// runDel deletes keys in one transaction, all keys with a prefix, or a range. A
// key that does not exist is no error.
func runDel(ctx context.Context, c *call, args []string) error {
	text := textFlag(c)
	var prefix, span bool
	c.flags.BoolVar(&prefix, "prefix", false, "delete all keys that begin with a KEY, and reclaim their space")
	c.flags.BoolVar(&span, "range", false, "delete the keys from the first KEY up to, not including, the second; '' means no bound")
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
	case span && len(keys) != 2:
		return c.usagef("-range takes two keys, got %d", len(keys))
	}
	db, err := openExisting(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		switch {
		case prefix:
			return dropPrefixes(ctx, db, keys)
		case span:
			return deleteRange(ctx, db, keys[0], keys[1])
		}
		return deleteKeys(ctx, db, keys)
	})
}

func deleteKeys(ctx context.Context, db *stoat.DB, keys [][]byte) error {
	return db.UpdateContext(ctx, func(tx *stoat.Txn) error {
		for _, key := range keys {
			if err := tx.Delete(key); err != nil {
				return err
			}
		}
		return nil
	})
}

func dropPrefixes(ctx context.Context, db *stoat.DB, prefixes [][]byte) error {
	for _, prefix := range prefixes {
		if err := db.DropPrefix(ctx, prefix); err != nil {
			return err
		}
	}
	return nil
}

func deleteRange(ctx context.Context, db *stoat.DB, lo, hi []byte) error {
	if len(hi) == 0 {
		hi = nil
	}
	return db.UpdateContext(ctx, func(tx *stoat.Txn) error { return tx.DeleteRange(lo, hi) })
}
