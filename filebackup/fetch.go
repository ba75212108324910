package filebackup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

// fetch reads a file from the store to its end, and hands its bytes to write. The bytes are
// right if it returns nil. Otherwise the error is ErrCorrupt, or that of the store or write.
func fetch(ctx context.Context, store Store, f *file, write func(b []byte, at int64) error) (err error) {
	r, err := store.Get(ctx, f.object())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", base.InFile(base.Corrupt(-1, "object of "+f.name, "none", fmt.Sprintf("%d bytes", f.size)), f.object()), err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	h := sha256.New()
	buf := make([]byte, bufferSize)
	at := int64(0)
	for ended := false; !ended; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := fill(r, buf)
		ended = err == io.EOF
		if err != nil && !ended {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if at+int64(n) > f.size {
			return f.wrong("length", fmt.Sprintf("more than %d", f.size), f.size)
		}
		h.Write(buf[:n])
		if err := write(buf[:n], at); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		at += int64(n)
	}
	switch got := sum(h.Sum(nil)); {
	case mutant.On(mutant.FileUnverified):
	case at != f.size:
		return f.wrong("length", at, f.size)
	case got != f.sum:
		return f.wrong("SHA-256", got, f.sum)
	}
	return nil
}

// fill reads until buf is full or r returns an error. Only io.EOF is the end of an object:
// when a connection breaks, its reader may return io.ErrUnexpectedEOF.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var more int
		more, err = r.Read(buf[n:])
		n += more
	}
	return n, err
}

// wrong returns an error about the object of a file.
func (f *file) wrong(what string, got, want any) error {
	return base.InFile(base.Corrupt(-1, what+" of "+f.name, got, want), f.object())
}
