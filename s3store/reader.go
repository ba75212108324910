package s3store

import (
	"context"
	"io"
	"time"

	"github.com/minio/minio-go/v7"
)

// A reader reads an object. The client repeats requests that fail, but it does not repeat the
// rest of an answer that breaks off. The reader does.
type reader struct {
	ctx   context.Context
	store *store
	name  string

	body io.ReadCloser
	at   int64
	// etag is that of the first answer. So all answers are of the same content.
	etag string
	// broken counts the answers in a row that broke off before their first byte.
	broken int
}

const (
	// brokenMax is the number of such answers after which the reader gives up.
	brokenMax = 4
	// brokenWait is the time before the first of the requests that follow. It doubles each time.
	brokenWait = 100 * time.Millisecond
)

// open asks for the rest of the object.
func (r *reader) open() error {
	var o minio.GetObjectOptions
	var err error
	if r.etag != "" {
		err = o.SetMatchETag(r.etag)
	}
	if r.at > 0 && err == nil {
		err = o.SetRange(r.at, 0)
	}
	if err == nil {
		var info minio.ObjectInfo
		var body io.ReadCloser
		if body, info, _, err = r.store.client.GetObject(r.ctx, r.store.bucket, r.store.prefix+r.name, o); err == nil {
			r.body, r.etag = body, info.ETag
		}
	}
	return r.store.explain("get", r.name, err)
}

// Read implements io.Reader.
func (r *reader) Read(b []byte) (int, error) {
	for {
		if r.body == nil {
			if err := r.open(); err != nil {
				return 0, err
			}
		}
		n, err := r.body.Read(b)
		r.at += int64(n)
		if n > 0 {
			r.broken = 0
		}
		if err == nil || err == io.EOF {
			return n, err
		}
		_ = r.body.Close() // its error is known
		r.body = nil
		if n > 0 {
			return n, nil
		}
		if r.broken++; r.broken > brokenMax || r.ctx.Err() != nil {
			return 0, r.store.explain("get", r.name, err)
		}
		select {
		case <-r.ctx.Done():
		case <-time.After(brokenWait << (r.broken - 1)):
		}
	}
}

// Close implements io.Closer.
func (r *reader) Close() error {
	if r.body == nil {
		return nil
	}
	return r.body.Close()
}
