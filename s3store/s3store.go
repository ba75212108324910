// Package s3store is a store for file backups in S3, or in an object store with its
// interface.
//
// The caller makes the client, and so chooses the server, the credentials and the transport.
// A store needs the rights to get, put, list and delete objects of the bucket, and to abort
// uploads in parts.
//
// The server must be consistent: a list shows what was stored before. S3 is, and so are the
// compatible servers that we know. No rule of the bucket may delete objects below the prefix
// by their age: a backup of today needs files of the first day. A rule should abort uploads
// in parts that are older than some days, because a crash can leave such an upload.
package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/stoatdb/stoat/filebackup"
)

// New returns the store of the objects of a bucket whose names begin with prefix and a
// slash. An empty prefix is the whole bucket, which must exist.
func New(client *minio.Client, bucket, prefix string) filebackup.Store {
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	return &store{client: minio.Core{Client: client}, bucket: bucket, prefix: prefix}
}

// A store is the part of a bucket below a prefix.
type store struct {
	client         minio.Core
	bucket, prefix string
}

// partSize is the size in bytes of the parts of a large upload. A part that fails is sent
// again. 10,000 parts, the most of S3, hold more than the largest file of a database.
const partSize = 16 << 20

// Put sends large objects in parts, which become the object together.
func (s *store) Put(ctx context.Context, name string, content *io.SectionReader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A client tries again after most errors. An error of the content ends it.
	watched := io.NewSectionReader(watch{content, cancel}, 0, content.Size())
	_, err := s.client.Client.PutObject(ctx, s.bucket, s.prefix+name, watched, content.Size(),
		minio.PutObjectOptions{PartSize: partSize, NumThreads: 2, ContentType: "application/octet-stream"})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return s.explain("put", name, err)
}

// A watch cancels a context when its content cannot be read.
type watch struct {
	io.ReaderAt
	cancel context.CancelCauseFunc
}

func (w watch) ReadAt(b []byte, off int64) (int, error) {
	n, err := w.ReaderAt.ReadAt(b, off)
	if err != nil && err != io.EOF {
		w.cancel(err)
	}
	return n, err
}

// Get implements filebackup.Store. When a connection breaks, the reader goes on where it was,
// with another request.
func (s *store) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r := &reader{ctx: ctx, store: s, name: name}
	if err := r.begin(); err != nil {
		return nil, err
	}
	return r, nil
}

func (s *store) List(ctx context.Context, prefix string) iter.Seq2[filebackup.Object, error] {
	return func(yield func(filebackup.Object, error) bool) {
		// The end of the context ends the requests when the caller leaves the loop.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		o := minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}
		for info := range s.client.Client.ListObjectsIter(ctx, s.bucket, o) {
			if info.Err != nil {
				yield(filebackup.Object{}, s.explain("list", prefix, info.Err))
				return
			}
			if !yield(filebackup.Object{Name: strings.TrimPrefix(info.Key, s.prefix), Size: info.Size}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(filebackup.Object{}, err)
		}
	}
}

func (s *store) Delete(ctx context.Context, name string) error {
	err := s.client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{})
	if err = s.explain("delete", name, err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// explain adds what failed to an error, and fs.ErrNotExist to that of a missing object.
func (s *store) explain(what, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case minio.ToErrorResponse(err).Code == minio.NoSuchKey:
		return fmt.Errorf("%s %s in bucket %s: %w: %w", what, s.prefix+name, s.bucket, fs.ErrNotExist, err)
	}
	return fmt.Errorf("%s %s in bucket %s: %w", what, s.prefix+name, s.bucket, err)
}
