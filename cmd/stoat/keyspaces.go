package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/stoatdb/stoat"
)

// A keyspaceChoice is the value of the flag -keyspace. The name is empty for the default
// keyspace.
type keyspaceChoice struct {
	name string
	when *moment // the value of the flag -at, nil if the command does not have it
}

// keyspaceFlag defines the flag that chooses the keyspace.
func keyspaceFlag(c *call) *keyspaceChoice {
	k := new(keyspaceChoice)
	c.flags.StringVar(&k.name, "keyspace", "", "use the keyspace with this `name` instead of the default keyspace")
	return k
}

// A noKeyspaceError is the name of a keyspace that does not exist.
type noKeyspaceError string

func (name noKeyspaceError) Error() string {
	return fmt.Sprintf("there is no keyspace %q; 'stoat keyspaces' lists them", string(name))
}

// find returns the keyspace, which must exist, and whether it has timestamps. It returns
// nil for the default keyspace.
func (k *keyspaceChoice) find(db *stoat.DB) (ks *stoat.Keyspace, timed bool, err error) {
	if k.name == "" {
		return nil, false, nil
	}
	all, err := db.Keyspaces()
	if err != nil {
		return nil, false, err
	}
	i := slices.IndexFunc(all, func(i stoat.KeyspaceInfo) bool { return i.Name == k.name })
	if i < 0 {
		return nil, false, noKeyspaceError(k.name)
	}
	ks, err = db.Keyspace(k.name, nil)
	return ks, all[i].Timestamps != 0, err
}

// of is find for a command that reads or writes at the timestamp of -at, or without one.
func (k *keyspaceChoice) of(db *stoat.DB) (*stoat.Keyspace, error) {
	ks, timed, err := k.find(db)
	at := k.when != nil && k.when.set
	switch {
	case err == nil && timed && k.when == nil:
		err = fmt.Errorf("the keyspace %q has timestamps, which this command cannot set", k.name)
	case err == nil && timed && !at:
		err = fmt.Errorf("the keyspace %q has timestamps: set the flag -at", k.name)
	case err == nil && !timed && at:
		err = fmt.Errorf("the keyspace %s has no timestamps: leave out the flag -at", keyspaceText(k.name))
	}
	return ks, err
}

// view runs fn in a read-only transaction in the keyspace.
func (k *keyspaceChoice) view(ctx context.Context, db *stoat.DB, fn func(tx stoat.Txn) error) error {
	ks, err := k.of(db)
	if err != nil {
		return err
	}
	err = db.ViewContext(ctx, func(tx stoat.Txn) error { return fn(tx.In(ks)) })
	if errors.Is(err, stoat.ErrCorrupt) {
		return fmt.Errorf("%w; %s", err, salvageHint)
	}
	return err
}

// update runs fn in a transaction in the keyspace, and commits it.
func (k *keyspaceChoice) update(ctx context.Context, db *stoat.DB, fn func(tx stoat.Txn) error) error {
	ks, err := k.of(db)
	if err != nil {
		return err
	}
	return db.UpdateContext(ctx, func(tx stoat.Txn) error { return fn(tx.In(ks)) })
}

// runKeyspaces lists, creates or drops keyspaces.
func runKeyspaces(_ context.Context, c *call, args []string) error {
	var create, drop string
	c.flags.StringVar(&create, "create", "", "create the keyspace with this `name`, which must not exist")
	var timestamps bool
	c.flags.BoolVar(&timestamps, "timestamps", false, "with -create: let -at of other commands choose timestamps")
	c.flags.StringVar(&drop, "drop", "", "delete the keyspace with this `name`, with all its keys")
	rest, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	switch {
	case create != "" && drop != "":
		return c.usagef("use either -create or -drop, not both")
	case create == "" && timestamps:
		return c.usagef("-timestamps needs -create")
	case create == "" && drop == "":
		db, err := c.openBeside(rest[0])
		return with(db, err, func(db *stoat.DB) error { return printKeyspaces(c, db) })
	}
	db, err := c.openToWrite(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		if drop != "" {
			err := db.DropKeyspace(drop)
			if errors.Is(err, stoat.ErrNoKeyspace) {
				return noKeyspaceError(drop)
			}
			return err
		}
		return createKeyspace(db, create, timestamps)
	})
}

// createKeyspace creates a keyspace, which must not exist. This command has the database
// for itself, so no other process creates it meanwhile.
func createKeyspace(db *stoat.DB, name string, timestamps bool) error {
	switch _, _, err := (&keyspaceChoice{name: name}).find(db); {
	case err == nil:
		return fmt.Errorf("there is a keyspace %q already", name)
	case err != noKeyspaceError(name):
		return err
	}
	o := new(stoat.KeyspaceOptions)
	if timestamps {
		o.Timestamps = stoat.TimestampsChecked
	}
	_, err := db.Keyspace(name, o)
	return err
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
	fmt.Fprintln(w, "keyspace\tversions\tcompression\tvalues apart\tlarge values\ttime to live\tmerge function\tfilter\ttimestamps")
	for _, k := range all {
		s := k.Settings
		timestamps := map[stoat.Timestamps]string{0: "no", stoat.TimestampsChecked: "checked",
			stoat.TimestampsUnchecked: "unchecked"}[k.Timestamps]
		fmt.Fprintf(w, "%s\t%d\t%v\tfrom %d bytes\tfrom %d bytes\t%s\t%s\t%s\t%s\n", keyspaceText(k.Name), s.NumVersions, s.Compression,
			s.ValueThreshold, s.LargeValueThreshold, ttlText(s.DefaultTTL), settingText(s.MergeFunction), settingText(s.Filter), timestamps)
	}
	fmt.Fprintf(w, "\nchange retention of all: %d bytes of the log\n", db.Settings().ChangeRetention)
	return w.Flush()
}
