package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stoatdb/stoat"
)

// runRekey protects a database with the current master key of the key file.
func runRekey(ctx context.Context, c *call, args []string) error {
	rest, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if c.keyFile == "" {
		return c.usagef("needs the flag -key-file")
	}
	db, err := c.open(rest[0], &stoat.Options{MustExist: true, Keys: c.keys()})
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

// runRenew gives values another expiry time.
func runRenew(ctx context.Context, c *call, args []string) error {
	text, space := textFlag(c), keyspaceFlag(c)
	var (
		ttl   time.Duration
		never bool
	)
	c.flags.DurationVar(&ttl, "ttl", 0, "let the values expire after this `time` from now, such as 90s or 24h")
	c.flags.BoolVar(&never, "never", false, "let the values never expire")
	rest, err := c.parse(args, 2, -1)
	if err != nil {
		return err
	}
	if (ttl > 0) == never || ttl < 0 {
		return c.usagef("needs either -ttl with a positive time, or -never")
	}
	expiry := stoat.TTL(ttl)
	if never {
		expiry = stoat.ExpiresAt(time.Time{})
	}
	var keys [][]byte
	for _, arg := range rest[1:] {
		key, err := text.decode(arg)
		if err != nil {
			return c.usagef("KEY: %v", err)
		}
		keys = append(keys, key)
	}
	db, err := c.openToWrite(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		return space.update(ctx, db, func(tx stoat.Txn) error {
			for i, key := range keys {
				_, err := tx.Get(key)
				if errors.Is(err, stoat.ErrNotFound) {
					return fmt.Errorf("there is no key %s", rest[i+1])
				}
				if err == nil {
					err = tx.Renew(key, expiry)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
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
