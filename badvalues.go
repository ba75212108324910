package stoat

import (
	"errors"
	"fmt"
	"sync"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// badValues is the value files that could not be rewritten because what is live
// in them cannot be read, or because a table that refers to them cannot: nobody
// knows what is live then. Collection leaves them alone until the database is
// opened again: tried again and again they would keep it from the others. Once
// nothing in them is live they go like any file.
type badValues struct {
	mu    sync.Mutex
	files map[base.FileNum]error // by the numbers in their names
}

// note remembers that a file is bad, if err says so.
func (b *badValues) note(f *manifest.ValueFile, err error) (bad bool) {
	if !unreadable(err, base.ValueName(f.File)) {
		return false
	}
	b.add(f, err)
	return true
}

func (b *badValues) add(f *manifest.ValueFile, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.files == nil {
		b.files = map[base.FileNum]error{}
	}
	b.files[f.File] = err
}

// referredTo remembers that those of the files are bad to which a table of v
// refers that err says cannot be read, and returns the others.
func (b *badValues) referredTo(files []*manifest.ValueFile, v *manifest.Version, err error) (others []*manifest.ValueFile) {
	refers := map[base.FileNum]bool{}
	for _, tables := range v.Levels {
		for _, t := range tables {
			if !unreadable(err, base.TableName(t.Num)) {
				continue
			}
			for _, ref := range t.Values {
				refers[ref.File] = true
			}
		}
	}
	for _, f := range files {
		if refers[f.Num] {
			b.add(f, err)
		} else {
			others = append(others, f)
		}
	}
	return others
}

// has reports whether a file is bad.
func (b *badValues) has(f *manifest.ValueFile) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.files[f.File] != nil
}

// keep returns why garbage stays in files of v, or nil.
func (b *badValues) keep(v *manifest.Version) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, f := range v.Values {
		if err := b.files[f.File]; err != nil && f.Live < f.Bytes {
			errs = append(errs, fmt.Errorf("%d bytes of garbage stay in %s: %w", f.Bytes-f.Live, base.ValueName(f.File), err))
		}
	}
	return errors.Join(errs...)
}
