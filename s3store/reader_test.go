package s3store_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/stoatdb/stoat/filebackup"
	"github.com/stoatdb/stoat/s3store"
)

// A cutter breaks off each answer with content after some bytes.
type cutter struct {
	after int64
	cuts  atomic.Int64
	// silent ends the broken answers as though they were complete.
	silent bool
	// whole answers requests for a part with the whole, as some gateways do.
	whole bool
	// cut is called after each of them. It may be nil.
	cut func()
}

// RoundTrip implements http.RoundTripper.
func (c *cutter) RoundTrip(r *http.Request) (*http.Response, error) {
	isObject := r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/files/")
	answer, err := http.DefaultTransport.RoundTrip(r)
	if isObject && err == nil {
		if c.whole {
			answer.StatusCode = http.StatusOK
			answer.Header.Del("Content-Range")
		}
		answer.Body = &cutBody{answer.Body, c, c.after}
	}
	return answer, err
}

type cutBody struct {
	io.ReadCloser
	c    *cutter
	left int64
}

// Read implements io.Reader.
func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		b.c.cuts.Add(1)
		if b.c.cut != nil {
			b.c.cut()
		}
		if b.c.silent {
			return 0, io.EOF
		}
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if n > 0 {
		err = nil // as in an answer whose length was not declared
	}
	return n, err
}

// cutStore returns a store whose answers c cuts, with an object, and the client of the server.
func cutStore(t *testing.T, c *cutter, content []byte) (store filebackup.Store, whole filebackup.Store) {
	t.Helper()
	client, bucket := newServer(t)
	whole = s3store.New(client, bucket, "cut")
	must(t, whole.Put(t.Context(), "files/a", io.NewSectionReader(bytes.NewReader(content), 0, int64(len(content)))))
	cutting, err := minio.New(client.EndpointURL().Host, &minio.Options{
		Creds: credentials.NewStaticV4(accessKey, secretKey, ""), Transport: c,
	})
	must(t, err)
	return s3store.New(cutting, bucket, "cut"), whole
}

// randomBytes returns n bytes that do not repeat.
func randomBytes(n int) []byte {
	content := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		content[i] = byte(rng.Uint32())
	}
	return content
}

func TestGet_GoesOnAfterBrokenConnections(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		c, content := &cutter{after: 70_001, silent: silent}, randomBytes(500_000)
		store, _ := cutStore(t, c, content)
		r, err := store.Get(t.Context(), "files/a")
		must(t, err)
		got, err := io.ReadAll(r)
		must(t, err)
		must(t, r.Close())
		if !bytes.Equal(got, content) || c.cuts.Load() < 7 {
			t.Errorf("silent %t: read %d bytes in spite of %d cuts, want %d and 7 cuts", silent, len(got), c.cuts.Load(), len(content))
		}
	}
}

func TestGet_GivesUpIfNoConnectionBringsAnything(t *testing.T) {
	t.Parallel()
	c := new(cutter)
	store, _ := cutStore(t, c, randomBytes(1000))
	r, err := store.Get(t.Context(), "files/a")
	must(t, err)
	got, err := io.ReadAll(r)
	if err == nil || len(got) > 0 || c.cuts.Load() < 2 {
		t.Errorf("read %d bytes after %d cuts, error %v", len(got), c.cuts.Load(), err)
	}
	must(t, r.Close())
}

func TestGet_DoesNotGoOnInAnotherContent(t *testing.T) {
	t.Parallel()
	first, second := randomBytes(100_000), bytes.Repeat([]byte("other"), 20_000)
	c := &cutter{after: 10_000}
	store, whole := cutStore(t, c, first)
	c.cut = func() {
		must(t, whole.Put(t.Context(), "files/a", io.NewSectionReader(bytes.NewReader(second), 0, int64(len(second)))))
	}
	r, err := store.Get(t.Context(), "files/a")
	must(t, err)
	if got, err := io.ReadAll(r); err == nil || !bytes.Equal(got, first[:len(got)]) {
		t.Errorf("read %d bytes, error %v; want some of the first content, and an error", len(got), err)
	}
	must(t, r.Close())
}

func TestGet_TakesNoAnswerThatBeginsElsewhere(t *testing.T) {
	t.Parallel()
	c, content := &cutter{after: 10_000, whole: true}, randomBytes(100_000)
	store, _ := cutStore(t, c, content)
	r, err := store.Get(t.Context(), "files/a")
	must(t, err)
	if got, err := io.ReadAll(r); err == nil || !bytes.Equal(got, content[:len(got)]) {
		t.Errorf("read %d bytes, error %v; want the beginning, and an error", len(got), err)
	}
	must(t, r.Close())
}

func TestGet_EndsWithItsLastByteAlthoughTheConnectionBreaksThere(t *testing.T) {
	t.Parallel()
	content := randomBytes(20_000)
	store, _ := cutStore(t, &cutter{after: int64(len(content))}, content)
	r, err := store.Get(t.Context(), "files/a")
	must(t, err)
	got, err := io.ReadAll(r)
	must(t, err)
	must(t, r.Close())
	if !bytes.Equal(got, content) {
		t.Errorf("read %d bytes, want %d", len(got), len(content))
	}
}
