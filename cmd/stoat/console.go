package main

import (
	"context"
	"io"
	"os"
)

// A console is what a command reads and writes.
type console struct {
	in       io.Reader
	out, err io.Writer
}

// input opens a file for reading, or standard input for the name -. The reader ends with ctx.
func (c *call) input(ctx context.Context, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(c.in), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{&interruptible{ctx: ctx, from: file}, file}, nil
}

// An interruptible reader ends with its context, also while it waits for input.
type interruptible struct {
	ctx  context.Context
	from io.Reader
	buf  []byte
}

// Read reads in a goroutine with a buffer of its own, which an interrupted Read leaves to it.
func (r *interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if len(r.buf) == 0 {
		r.buf = make([]byte, 64<<10)
	}
	buf := r.buf[:min(len(p), len(r.buf))]
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := r.from.Read(buf)
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		return copy(p, buf[:got.n]), got.err
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}

// An output keeps the first error of a write, so that a command fails if its
// output was not written.
type output struct {
	w      io.Writer
	err    error
	failed func() // ends the command, so that it cleans up
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if o.err == nil && err != nil {
		o.err = err
		o.failed()
	}
	return n, err
}
