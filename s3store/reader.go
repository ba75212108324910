package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// A reader reads an object. The client repeats requests that fail, but it does not repeat the
// rest of an answer that breaks off. The reader does.
type reader struct {
	ctx   context.Context
	store *store
	name  string

	body io.ReadCloser // nil after an answer that broke off
	at   int64
	// object is what the first answer said of the object. All answers must have its ETag. So
	// they are of the same content.
	object minio.ObjectInfo
	// broken counts the answers in a row that broke off before their first byte.
	broken int
	closed bool
}

const (
	// brokenMax is the number of such answers that the reader bears with.
	brokenMax = 4
	// brokenWait is the time before the first of the requests that follow. It doubles each time.
	brokenWait = 100 * time.Millisecond
)

// errOther says that an answer is not the rest of what was begun.
var errOther = errors.New("s3store: the connection broke, and the next answer does not go on where it was")

// begin asks for the object.
func (r *reader) begin() error {
	body, object, _, err := r.get(minio.GetObjectOptions{})
	r.body, r.object = body, object
	return r.explain(err)
}

// goOn asks for the rest of the object.
func (r *reader) goOn() error {
	var o minio.GetObjectOptions
	if r.at > 0 {
		if err := o.SetRange(r.at, 0); err != nil {
			return r.explain(err)
		}
	}
	body, rest, header, err := r.get(o)
	if err != nil {
		return r.explain(err)
	}
	if rest.ETag != r.object.ETag || r.at > 0 && !strings.HasPrefix(header.Get("Content-Range"), fmt.Sprintf("bytes %d-", r.at)) {
		_ = body.Close() // it is not read
		return r.explain(errOther)
	}
	r.body = body
	return nil
}

func (r *reader) get(o minio.GetObjectOptions) (io.ReadCloser, minio.ObjectInfo, http.Header, error) {
	return r.store.client.GetObject(r.ctx, r.store.bucket, r.store.prefix+r.name, o)
}

func (r *reader) explain(err error) error { return r.store.explain("get", r.name, err) }

// Read implements io.Reader.
func (r *reader) Read(b []byte) (int, error) {
	for {
		switch {
		case r.closed:
			return 0, r.explain(http.ErrBodyReadAfterClose)
		case r.at == r.object.Size: // -1 if the server did not say it
			return 0, io.EOF
		case r.body == nil:
			if err := r.goOn(); err != nil {
				return 0, err
			}
		}
		n, err := r.body.Read(b)
		r.at += int64(n)
		if n > 0 {
			r.broken = 0
		}
		if err == io.EOF && r.at < r.object.Size {
			err = io.ErrUnexpectedEOF
		}
		if err == nil || err == io.EOF {
			return n, err
		}
		_ = r.body.Close() // its error is known
		r.body = nil
		if n > 0 {
			return n, nil
		}
		if r.broken++; r.broken > brokenMax || r.ctx.Err() != nil || r.object.ETag == "" {
			return 0, r.explain(err)
		}
		select {
		case <-r.ctx.Done():
		case <-time.After(brokenWait << (r.broken - 1)):
		}
	}
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.closed = true
	if r.body == nil {
		return nil
	}
	return r.body.Close()
}
