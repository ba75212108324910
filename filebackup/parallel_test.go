package filebackup

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/vfs/memfs"
)

// A leavingStore ends the goroutine of a call that puts or gets a file.
type leavingStore struct {
	Store
	left atomic.Int64 // such calls up to that one
}

func (s *leavingStore) leave(name string) {
	if strings.HasPrefix(name, filesDir) && s.left.Add(-1) == 0 {
		runtime.Goexit()
	}
}

func (s *leavingStore) Put(ctx context.Context, name string, content *io.SectionReader) error {
	s.leave(name)
	return s.Store.Put(ctx, name, content)
}

func (s *leavingStore) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	s.leave(name)
	return s.Store.Get(ctx, name)
}

func TestEach_AStoreThatEndsTheGoroutineOfACopyIsAnError(t *testing.T) {
	t.Parallel()
	db, o := newSteady()
	whole := Dir(memfs.New(), "/store")
	_, err := Backup(t.Context(), db, whole, o)
	must(t, err)
	for nth := range int64(len(db.files)) {
		leaving := func(s Store) Store {
			l := &leavingStore{Store: s}
			l.left.Store(nth + 1)
			return l
		}
		_, err := Backup(t.Context(), db, leaving(Dir(memfs.New(), "/store")), o)
		wantEnded(t, "Backup", nth, err)
		_, err = Verify(t.Context(), leaving(whole), "")
		wantEnded(t, "Verify", nth, err)
		_, err = Restore(t.Context(), leaving(whole), "", "/restored", RestoreOptions{FS: memfs.New(), Workers: 1})
		wantEnded(t, "Restore", nth, err)
	}
}

func wantEnded(t *testing.T, what string, nth int64, err error) {
	t.Helper()
	if !errors.Is(err, errEnded) {
		t.Errorf("%s, with an end in the call after %d: %v, want %v", what, nth, err, errEnded)
	}
}
