package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stoatdb/stoat"
)

// forever is the value of -ttl that removes a default time to live.
const forever = "none"

// compressions maps the values of -compression to the database's settings.
var compressions = map[string]stoat.Compression{
	"none": stoat.CompressionNone, "fast": stoat.CompressionFast, "small": stoat.CompressionSmall,
}

// runConfigure changes the stored settings of a keyspace.
func runConfigure(_ context.Context, c *call, args []string) error {
	space := keyspaceFlag(c)
	var (
		o                                 stoat.KeyspaceOptions
		versions, apart, large, retention number
		discard                           moment
	)
	c.flags.Var(&versions, "versions", "keep at least this `number` of versions of a key")
	c.flags.Func("ttl", "let values expire after this `time`, such as 24h, unless they say otherwise; "+forever+" means never", func(s string) (err error) {
		if o.DefaultTTL = -1; s == forever {
			return nil
		}
		if o.DefaultTTL, err = time.ParseDuration(s); err == nil && o.DefaultTTL <= 0 {
			err = fmt.Errorf("want a positive time, or %s", forever)
		}
		return err
	})
	c.flags.Func("compression", "compress values with this `method`: none, fast or small", func(s string) error {
		var known bool
		if o.Compression, known = compressions[s]; !known {
			return fmt.Errorf("want none, fast or small")
		}
		return nil
	})
	c.flags.Var(&apart, "value-threshold", "store values from this `size` on in value files, apart from their keys")
	c.flags.Var(&large, "large-value-threshold", "in large transactions, write values from this `size` on straight to value files")
	c.flags.StringVar(&o.MergeFunction, "merge-function", "", "merge operands with the function of this `name`; none removes it")
	c.flags.StringVar(&o.Filter, "filter", "", "let compactions ask the filter of this `name`; none removes it")
	c.flags.Var(&retention, "change-retention", "keep this `number` of bytes of the log for 'stoat changes', 0 for none; it holds for all keyspaces")
	c.flags.Var(&discard, "discard-below", "refuse reads and writes below this `timestamp` from now on, and let compactions drop what no later read can find; this cannot be undone")
	rest, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	given := c.given()
	delete(given, "key-file")
	delete(given, "keyspace")
	for name, missing := range map[string]bool{"versions": versions == 0, "value-threshold": apart == 0, "large-value-threshold": large == 0,
		"merge-function": o.MergeFunction == "", "filter": o.Filter == ""} {
		if given[name] && missing {
			return c.usagef("-%s is empty or 0, which changes nothing", name)
		}
	}
	switch {
	case len(given) == 0:
		return c.usagef("needs a flag that names a setting; 'stoat keyspaces' prints the settings")
	case given["change-retention"] && space.name != "":
		return c.usagef("-change-retention holds for all keyspaces: leave out -keyspace")
	case discard.set && space.name == "":
		return c.usagef("-discard-below needs -keyspace: the default keyspace has no timestamps")
	}
	o.NumVersions, o.ValueThreshold, o.LargeValueThreshold = versions.count(), int64(apart), int64(large)
	open := stoat.Options{MustExist: true}
	if space.name == "" {
		open.NumVersions, open.ValueThreshold, open.LargeValueThreshold = o.NumVersions, o.ValueThreshold, o.LargeValueThreshold
		open.Compression, open.DefaultTTL, open.MergeFunction, open.Filter = o.Compression, o.DefaultTTL, o.MergeFunction, o.Filter
	}
	if open.ChangeRetention = int64(retention); given["change-retention"] && retention == 0 {
		open.ChangeRetention = -1
	}
	db, err := c.open(rest[0], &open)
	return with(db, err, func(db *stoat.DB) error {
		if space.name == "" {
			return nil
		}
		_, timed, err := space.find(db)
		if err == nil && discard.set && !timed { // before anything is changed
			err = fmt.Errorf("the keyspace %q has no timestamps", space.name)
		}
		if err != nil {
			return err
		}
		ks, err := db.Keyspace(space.name, &o)
		if err == nil && discard.set {
			err = ks.DiscardBelow(discard.at)
		}
		return err
	})
}
