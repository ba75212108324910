package place

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// A Stream is a value that a transaction was given as a reader. It is in a value
// file of its own, which becomes a part of the database with the commit.
type Stream struct {
	File *manifest.ValueFile
	Kept bool // the manifest has the file

	reader *values.Reader // for the transaction itself, once it asked
}

// Streams writes and removes the streams of one database. Group is entered for
// each change of the directory, which may be another database's after Close.
type Streams struct {
	Options
	Group *work.Group
}

// Write writes what r reads to a value file. Nothing is left of the file after an
// error, nor after a panic of r.
func (s *Streams) Write(key []byte, r io.Reader) (stream *Stream, at values.Pointer, err error) {
	if !s.Group.Enter() {
		return nil, at, base.ErrClosed
	}
	num, file, err := s.Store.NewValueFile()
	s.Group.Leave()
	if err != nil {
		return nil, at, err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil || stream == nil {
			stream = nil
			s.Remove(num)
		}
	}()
	props, at, err := writeStream(file, values.WriterOptions{Num: num, Salt: rand.Uint64()}, key, r)
	if err != nil {
		return nil, at, fmt.Errorf("stream a value: %w", err)
	}
	return &Stream{File: FileOf(props, num)}, at, nil
}

// writeStream writes a value file of one value. The version of it is not known
// yet: the file has its key once, so the key identifies the record.
func writeStream(file vfs.File, o values.WriterOptions, key []byte, r io.Reader) (p values.Properties, at values.Pointer, err error) {
	w, err := values.NewWriter(file, o)
	if err != nil {
		return p, at, err
	}
	s, err := w.Stream(key)
	if err != nil {
		return p, at, err
	}
	if _, err = s.ReadFrom(r); err != nil {
		s.Abort()
		return p, at, err
	}
	if at, err = s.Finish(0); err != nil {
		return p, at, err
	}
	p, err = w.Finish()
	return p, at, err
}

// Streamed reports whether a pointer leads to one of the streams of a transaction. A
// renewed value of the transaction may lie in another file.
func Streamed(streams []*Stream, p values.Pointer) bool {
	return slices.ContainsFunc(streams, func(s *Stream) bool { return s.File.Num == p.File })
}

// Reader returns the reader of one of the streams of a transaction.
func (s *Streams) Reader(of []*Stream, p values.Pointer) (*values.Reader, error) {
	for _, stream := range of {
		if stream.File.Num != p.File {
			continue
		}
		if stream.reader == nil {
			r, err := s.Store.Files().OpenValues(stream.File)
			if err != nil {
				return nil, err
			}
			stream.reader = r
		}
		return stream.reader, nil
	}
	return nil, base.Corrupt(-1, "value file of a pointer", uint64(p.File), "one of the transaction's")
}

// Drop ends streams, and removes those that did not become a part of the
// database.
func (s *Streams) Drop(streams []*Stream) {
	for _, stream := range streams {
		if stream.reader != nil {
			_ = stream.reader.Close() // it was only read
		}
		if !stream.Kept {
			s.Remove(stream.File.File)
		}
	}
}

// Remove removes the file of a stream. After Close the next Open finds the file
// and removes it.
func (s *Streams) Remove(n base.FileNum) {
	if s.Group.Enter() {
		defer s.Group.Leave()
		s.Store.RemoveFile(base.ValueName(n))
	}
}
