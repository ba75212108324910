package main

import (
	"context"
	"fmt"
	"io"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/sorted"
)

// runPack writes the lines of a file to a file of sorted entries.
func runPack(ctx context.Context, c *call, args []string) error {
	text := textFlag(c)
	asJSON := c.flags.Bool("json", false, `each line is an object such as {"key": "a", "value": "b"}`)
	rest, err := c.parse(args, 2, 2)
	if err != nil {
		return err
	}
	in, err := c.input(ctx, rest[0])
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	decode := text.line
	if *asJSON {
		decode = text.object
	}
	n := 0
	err = newFile(rest[1], func(to io.Writer) error {
		n, err = pack(to, in, decode)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%d keys packed\n", n)
	return nil
}

// pack writes lines to a file of sorted entries, and counts them.
func pack(to io.Writer, in io.Reader, decode func(line []byte) (stoat.Entry, error)) (n int, err error) {
	w, err := sorted.NewWriter(to, sorted.Options{})
	if err != nil {
		return 0, err
	}
	for e, err := range linesOf(in, decode) {
		if err == nil {
			err = w.Add(sorted.Entry{Key: e.Key, Value: e.Value})
		}
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, w.Finish()
}

// runIngest ingests files of sorted entries.
func runIngest(ctx context.Context, c *call, args []string) error {
	space := keyspaceFlag(c)
	when := momentFlag(c, space, "ingest values at")
	rest, err := c.parse(args, 2, -1)
	if err != nil {
		return err
	}
	db, err := c.openToWrite(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		ks, err := space.of(db)
		if err != nil {
			return err
		}
		done, err := sorted.Ingest(ctx, db, nil, rest[1:], stoat.IngestOptions{Keyspace: ks, Timestamp: when.at})
		if err == nil {
			c.printStored(done.Entries, "ingested")
		}
		return err
	})
}
