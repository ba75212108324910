package manifest

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

func TestVerify_ReportsEveryChangedByteOfAnEdit(t *testing.T) {
	t.Parallel()
	fs, rng := newTestDisk(t), rand.New(rand.NewPCG(1, 1))
	s, err := Create(fs, testDir, firstState(), testRandom(1), nil)
	must(t, err)
	must(t, s.Verify())
	for range 3 {
		e := testEdit(rng, s.State())
		e.Spans = Some(testSpans(rng, 2))
		must(t, s.Append(e))
		must(t, s.Verify())
	}
	flip := func(offset int64) {
		f, err := fs.OpenReadWrite(s.path(1), vfs.CatManifest)
		must(t, err)
		var b [1]byte
		_, err = f.ReadAt(b[:], offset)
		must(t, err)
		b[0] ^= 4
		_, err = f.WriteAt(b[:], offset)
		must(t, errors.Join(err, f.Close()))
	}
	for offset := int64(record.Start); offset < s.mu.file.end; offset++ {
		flip(offset)
		var bad *base.CorruptionError
		if err := s.Verify(); !errors.As(err, &bad) || bad.File != FileName(1) || bad.Offset > offset {
			t.Fatalf("byte %d was changed: %v", offset, err)
		}
		flip(offset)
	}
	flip(s.mu.file.end) // the mark, without which the edits stay the same
	must(t, s.Verify())
	must(t, s.Close())
}

func TestVerify_DetectsAnOlderCopy(t *testing.T) {
	t.Parallel()
	fs := newTestDisk(t)
	s, err := Create(fs, testDir, firstState(), testRandom(1), nil)
	must(t, err)
	older := fs.Clone()
	must(t, s.Append(Edit{NextFile: Some(uint64(5))}))
	s.fs = older
	if err := s.Verify(); !errors.Is(err, base.ErrCorrupt) {
		t.Errorf("%v, want %v", err, base.ErrCorrupt)
	}
	must(t, older.Remove(s.path(1)))
	_, err = Create(older, testDir, firstState(), testRandom(2), nil)
	must(t, err)
	if err := s.Verify(); !errors.Is(err, base.ErrCorrupt) {
		t.Errorf("the manifest of another: %v, want %v", err, base.ErrCorrupt)
	}
}

func TestVerify_RunsBesideEditsAndTakeovers(t *testing.T) {
	t.Parallel()
	fs, rng := newTestDisk(t), rand.New(rand.NewPCG(1, 1))
	s, err := Create(fs, testDir, firstState(), testRandom(1), nil)
	must(t, err)
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for range 40 {
				if err := s.Verify(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for s.mu.file.number < 4 {
		e := testEdit(rng, s.State())
		e.Spans = Some(testSpans(rng, 500))
		must(t, s.Append(e))
	}
	others.Wait()
	must(t, s.Close())
	for _, readOnly := range []bool{true, false} {
		s, _, err := Load(fs, testDir, readOnly, testRandom(3), nil)
		must(t, err)
		must(t, s.Verify())
		must(t, s.Close())
	}
}
