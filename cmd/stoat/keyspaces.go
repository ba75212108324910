package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/stoatdb/stoat"
)

// A keyspaceName is the value of the flag -keyspace. It is empty for the default
// keyspace.
type keyspaceName string

// keyspaceFlag defines the flag that chooses the keyspace.
func keyspaceFlag(c *call) *keyspaceName {
	k := new(keyspaceName)
	c.flags.StringVar((*string)(k), "keyspace", "", "use the keyspace with this `name` instead of the default keyspace")
	return k
}

// of returns the keyspace, which must exist. It returns nil for the default keyspace.
func (k keyspaceName) of(db *stoat.DB) (*stoat.Keyspace, error) {
	if k == "" {
		return nil, nil
	}
	all, err := db.Keyspaces()
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(all, func(i stoat.KeyspaceInfo) bool { return i.Name == string(k) }) {
		return nil, fmt.Errorf("there is no keyspace %q; 'stoat keyspaces' lists them", string(k))
	}
	return db.Keyspace(string(k), nil)
}

// view runs fn in a read-only transaction in the keyspace.
func (k keyspaceName) view(ctx context.Context, db *stoat.DB, fn func(tx stoat.Txn) error) error {
	ks, err := k.of(db)
	if err != nil {
		return err
	}
	return db.ViewContext(ctx, func(tx stoat.Txn) error { return fn(tx.In(ks)) })
}

// update runs fn in a transaction in the keyspace, and commits it.
func (k keyspaceName) update(ctx context.Context, db *stoat.DB, fn func(tx stoat.Txn) error) error {
	ks, err := k.of(db)
	if err != nil {
		return err
	}
	return db.UpdateContext(ctx, func(tx stoat.Txn) error { return fn(tx.In(ks)) })
}

// runKeyspaces lists, creates or drops keyspaces.
func runKeyspaces(_ context.Context, c *call, args []string) error {
	var create, drop string
	c.flags.StringVar(&create, "create", "", "create the keyspace with this `name`")
	var timestamps bool
	c.flags.BoolVar(&timestamps, "timestamps", false, "with -create: let -at of other commands choose timestamps")
	c.flags.StringVar(&drop, "drop", "", "delete the keyspace with this `name`, with all its keys")
	rest, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if create == "" && drop == "" {
		db, err := c.openBeside(rest[0])
		return with(db, err, func(db *stoat.DB) error { return printKeyspaces(c, db) })
	}
	db, err := c.openToWrite(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		var errs [2]error
		if create != "" {
			o := new(stoat.KeyspaceOptions)
			if timestamps {
				o.Timestamps = stoat.TimestampsChecked
			}
			_, errs[0] = db.Keyspace(create, o)
		}
		if drop != "" {
			errs[1] = db.DropKeyspace(drop)
		}
		return errors.Join(errs[:]...)
	})
}

// keyspaceText returns the name of a keyspace for people.
func keyspaceText(name string) string {
	if name == "" {
		return "(default)"
	}
	return fmt.Sprintf("%q", name)
}

// printKeyspaces prints a line for each keyspace.
func printKeyspaces(c *call, db *stoat.DB) error {
	all, err := db.Keyspaces()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "keyspace\tversions\tcompression\tvalues apart\tlarge values\ttime to live\ttimestamps")
	for _, k := range all {
		s := k.Settings
		ttl := "forever"
		if s.DefaultTTL > 0 {
			ttl = s.DefaultTTL.Round(time.Millisecond).String()
		}
		timestamps := map[stoat.Timestamps]string{0: "no", stoat.TimestampsChecked: "checked",
			stoat.TimestampsUnchecked: "unchecked"}[k.Timestamps]
		compression := map[stoat.Compression]string{stoat.CompressionNone: "none", stoat.CompressionFast: "fast",
			stoat.CompressionSmall: "small"}[s.Compression]
		fmt.Fprintf(w, "%s\t%d\t%s\tfrom %d bytes\tfrom %d bytes\t%s\t%s\n",
			keyspaceText(k.Name), s.NumVersions, compression, s.ValueThreshold, s.LargeValueThreshold, ttl, timestamps)
	}
	return w.Flush()
}
