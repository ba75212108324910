package filebackup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
)

// A Store keeps objects under names. A name has letters, digits, dots, hyphens and slashes,
// at most 128 in all. Any goroutine may call the methods.
//
// The methods agree at once: Get and List show what Put has stored and no longer what
// Delete has deleted, in all processes.
type Store interface {
	// Put stores an object of content.Size() bytes, or replaces it. When it returns nil,
	// the object is durable. Before that, and after an error or a crash, the name leads to
	// the whole old object or the whole new one. It may lead to none if there was none.
	Put(ctx context.Context, name string, content *io.SectionReader) error

	// Get opens an object. The caller closes the reader. If the object does not exist, the
	// error is fs.ErrNotExist of package io/fs.
	Get(ctx context.Context, name string) (io.ReadCloser, error)

	// List returns the objects whose names begin with prefix, in any order. They are
	// durable, also those of a Put that has not returned. An error ends the loop.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]

	// Delete deletes an object, durably. If the object does not exist, Delete returns nil.
	Delete(ctx context.Context, name string) error
}

// An Object is an object of a store.
type Object struct {
	// Name is the name, and Size the length in bytes.
	Name string
	Size int64
}

// The directories of a store.
const (
	filesDir   = "files/"
	listsDir   = "lists/"
	claimsDir  = "claims/"
	partialDir = "partial/"
)

// sectionOf returns a reader of b.
func sectionOf(b []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b)))
}

// getSmall returns an object of at most maxSize bytes. It ends with the first byte beyond.
func getSmall(ctx context.Context, store Store, name string, maxSize int64) (b []byte, err error) {
	r, err := store.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if b, err = io.ReadAll(io.LimitReader(r, maxSize+1)); err == nil && int64(len(b)) > maxSize {
		err = fmt.Errorf("filebackup: %s has more than %d bytes", name, maxSize)
	}
	return b, err
}
