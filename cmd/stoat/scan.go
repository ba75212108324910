package main

import (
	"bufio"
	"context"
	"errors"

	"github.com/stoatdb/stoat"
)

// runScan prints a line for each key: the key, a tab and the value.
func runScan(ctx context.Context, c *call, args []string) error {
	text, space := textFlag(c), keyspaceFlag(c)
	when := momentFlag(c, space, "print what keys have at")
	var (
		o                stoat.IterOptions
		prefix, from, to string
		limit            = number(0)
	)
	c.flags.StringVar(&prefix, "prefix", "", "print only keys that begin with this `text`")
	c.flags.StringVar(&from, "from", "", "print only keys from this `key` on")
	c.flags.StringVar(&to, "to", "", "print only keys below this `key`")
	c.flags.BoolVar(&o.Reverse, "reverse", false, "print the keys in descending order")
	c.flags.BoolVar(&o.KeysOnly, "keys", false, "print keys without values")
	c.flags.Var(&limit, "limit", "stop after this `number` of keys (0 means all)")
	rest, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	err = c.decodeFlags(text, keyFlag{"prefix", prefix, &o.Prefix}, keyFlag{"from", from, &o.Lower}, keyFlag{"to", to, &o.Upper})
	if err != nil {
		return err
	}
	db, err := c.openBeside(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		return space.view(ctx, db, func(tx stoat.Txn) error {
			return printEntries(c, when.iterate(tx, o), text, o.KeysOnly, limit.count())
		})
	})
}

// printEntries prints the entries of an iterator and closes it.
func printEntries(c *call, it cursor, text *textFormat, keysOnly bool, limit int) error {
	defer it.Close()
	out := bufio.NewWriter(c.out)
	var line []byte
	for n := 0; (limit == 0 || n < limit) && it.Next(); n++ {
		line = text.encode(line[:0], it.Key())
		if !keysOnly {
			value := it.Value()
			if !it.Valid() {
				break // reading the value failed; see it.Err
			}
			var err error
			if line, err = text.encodeLong(out, append(line, '\t'), value); err != nil {
				return err
			}
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return errors.Join(out.Flush(), it.Err())
}
