package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/dump"
	"github.com/stoatdb/stoat/vfs"
)

// runSalvage copies what verifies of a damaged database.
func runSalvage(ctx context.Context, c *call, args []string) error {
	text := textFlag(c)
	var o stoat.SalvageOptions
	c.flags.BoolVar(&o.IgnoreManifest, "all-files", false, "read all files, not only those of the manifest")
	rest, err := c.parse(args, 2, 2)
	if err != nil {
		return err
	}
	o.Keys = c.keys()
	report, err := stoat.Salvage(ctx, rest[0], rest[1], o)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already", rest[1])
	}
	var at *vfs.PathError
	if errors.Is(err, stoat.ErrLocked) && errors.As(err, &at) && at.Op == vfs.OpLockDir.String() { // TO, not DIR
		return explained{"another process works in " + at.Path, err}
	}
	if err != nil {
		return c.unopened(rest[0], err)
	}
	for _, l := range report.Lost {
		fmt.Fprintln(c.out, text.loss(l))
	}
	if report.More > 0 {
		fmt.Fprintf(c.out, "lost: %d more parts\n", report.More)
	}
	for _, note := range report.Notes {
		fmt.Fprintln(c.out, "note:", note)
	}
	fmt.Fprintf(c.out, "read %d tables, %d value files and %d log segments; copied %d versions of keys, %d of them with values in value files, and %d range tombstones\n",
		report.Tables, report.ValueFiles, report.Segments, report.Entries, report.Values, report.RangeTombstones)
	n := uint64(len(report.Lost)) + report.More
	if !report.Manifest && !o.IgnoreManifest {
		return fmt.Errorf("the manifest of %s and %d other parts are lost; %s has the rest. Deleted keys may be back there, and settings are gone", rest[0], n, rest[1])
	}
	if n > 0 {
		return fmt.Errorf("%d parts of %s are lost; %s has the rest", n, rest[0], rest[1])
	}
	return nil
}

// loss formats a loss as a line.
func (t *textFormat) loss(l stoat.SalvageLoss) string {
	line := "lost: " + l.File
	if l.Offset >= 0 {
		line += fmt.Sprintf(" at %d", l.Offset)
	}
	if l.Entries > 0 {
		line += fmt.Sprintf(", %d versions", l.Entries)
	}
	switch from, to := t.bound(l.From), t.bound(l.To); {
	case from == "" && to == "":
		line += ", keys unknown"
	case from == "":
		line += ", keys up to " + to
	case to == "":
		line += ", keys from " + from
	default:
		line += ", keys from " + from + " to " + to
	}
	return fmt.Sprintf("%s: %v", line, l.Err)
}

// bound formats the bound of a loss, or returns "" for none.
func (t *textFormat) bound(k stoat.SalvageKey) string {
	if k.Key == nil {
		return ""
	}
	key := string(t.encode(nil, k.Key))
	if k.Keyspace == "" {
		return key
	}
	return fmt.Sprintf("%s (keyspace %s)", key, k.Keyspace)
}

// runDump prints a file of a database.
func runDump(ctx context.Context, c *call, args []string) error {
	o := dump.Options{FS: vfs.OS(), Out: c.out}
	c.flags.BoolVar(&o.JSON, "json", false, "print each line as a JSON object")
	c.flags.BoolVar(&o.Hex, "hex", false, "print keys and values in hexadecimal")
	c.flags.IntVar(&o.ValueMax, "value-bytes", 64, "print at most this `number` of bytes of each value")
	c.flags.StringVar(&c.keyFile, "key-file", "", "read the master keys of an encrypted database from this `file`")
	rest, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if o.ValueMax < 0 {
		return c.usagef("-value-bytes is %d, want 0 or more", o.ValueMax)
	}
	o.Name, o.Provider = rest[0], c.keys()
	err = dump.Run(ctx, o)
	if errors.Is(err, stoat.ErrKey) && c.keyFile == "" {
		return fmt.Errorf("the database of %s needs the flag -key-file: %w", o.Name, err)
	}
	return err
}

// repair rebuilds the damaged parts of tables that can be derived.
func (c *call) repair(ctx context.Context, dir string) error {
	if err := c.checkUser(dir); err != nil {
		return err
	}
	done, err := stoat.Repair(ctx, dir, &stoat.Options{Keys: c.keysOf(dir)})
	for _, r := range done {
		if r.Err != nil {
			fmt.Fprintf(c.out, "not repaired: %s: %v\n", r.File, r.Err)
			continue
		}
		fmt.Fprintf(c.out, "repaired: %s of %s, which is now %s\n", strings.Join(r.Parts, ", "), r.File, r.New)
	}
	if err != nil {
		return c.unopened(dir, err)
	}
	return nil
}
