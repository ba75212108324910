package main

import (
	"context"
	"fmt"

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
	split := c.given()["split"]
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
