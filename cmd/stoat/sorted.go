package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/sorted"
)

// runPack writes the lines of a file to a file of sorted entries.
func runPack(_ context.Context, c *call, args []string) error {
	text := textFlag(c)
	asJSON := c.flags.Bool("json", false, `each line is an object such as {"key": "a", "value": "b"}`)
	rest, err := c.parse(args, 2, 2)
	if err != nil {
		return err
	}
	in := c.in
	if rest[0] != "-" {
		file, err := os.Open(rest[0])
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	decode := text.line
	if *asJSON {
		decode = text.object
	}
	file, err := os.OpenFile(rest[1], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := pack(file, in, decode)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(rest[1]))
	}
	fmt.Fprintf(c.out, "%d keys packed\n", n)
	return nil
}

// pack writes lines to a file of sorted entries, and counts them.
func pack(to io.Writer, in io.Reader, decode func(line []byte) (stoat.Entry, error)) (n int, err error) {
	buffered := bufio.NewWriterSize(to, copyBuffer)
	w, err := sorted.NewWriter(buffered, sorted.Options{})
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
	return n, errors.Join(w.Finish(), buffered.Flush())
}

// runIngest ingests files of sorted entries.
func runIngest(ctx context.Context, c *call, args []string) error {
	space := keyspaceFlag(c)
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
		done, err := sorted.Ingest(ctx, db, nil, rest[1:], stoat.IngestOptions{Keyspace: ks})
		if err == nil {
			fmt.Fprintf(c.out, "%d keys ingested\n", done.Entries)
		}
		return err
	})
}
