package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/stoatdb/stoat"
)

// runEstimate prints about what a range of keys has, or keys that split it.
func runEstimate(_ context.Context, c *call, args []string) error {
	text, space := textFlag(c), keyspaceFlag(c)
	var (
		from, to string
		lo, hi   []byte
		parts    number
	)
	c.flags.StringVar(&from, "from", "", "begin with this `key`")
	c.flags.StringVar(&to, "to", "", "end below this `key`")
	c.flags.Var(&parts, "split", "print keys that split the range into this `number` of parts of about the same size instead")
	rest, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	split := false
	c.flags.Visit(func(f *flag.Flag) { split = split || f.Name == "split" })
	if split && parts < 1 {
		return c.usagef("-split is %d, want at least 1", parts)
	}
	if err := c.decodeFlags(text, keyFlag{"from", from, &lo}, keyFlag{"to", to, &hi}); err != nil {
		return err
	}
	db, err := c.openBeside(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		ks, _, err := space.find(db)
		if err != nil {
			return err
		}
		if !split {
			e, err := db.EstimateRange(ks, lo, hi)
			if err == nil {
				fmt.Fprintf(c.out, "about %d keys, %d bytes\n", e.Keys, e.Bytes)
			}
			return err
		}
		keys, err := db.SplitRange(ks, lo, hi, parts.count())
		for _, key := range keys {
			fmt.Fprintf(c.out, "%s\n", text.encode(nil, key))
		}
		return err
	})
}

// runRenew gives values another time of expiry.
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
