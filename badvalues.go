package stoat

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// badValues is the value files that could not be rewritten because what is live
// in them cannot be read, or because a table that refers to them cannot: nobody
// knows what is live then; and those of which a value could not be moved. Collection,
// joining and gathering leave them alone until the database is
// opened again: tried again and again they would keep these from the others. Once
// nothing in them is live they go like any file.
type badValues struct {
	adding sync.Mutex
	// files has them by the numbers in their names, and says why. No map in it ever
	// changes. nil is none.
	files atomic.Pointer[map[base.FileNum]error]
}

// all returns the files.
func (b *badValues) all() map[base.FileNum]error {
	if files := b.files.Load(); files != nil {
		return *files
	}
	return nil
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
	b.adding.Lock()
	defer b.adding.Unlock()
	files := map[base.FileNum]error{f.File: err}
	maps.Copy(files, b.all())
	b.files.Store(&files)
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
func (b *badValues) has(f *manifest.ValueFile) bool { return b.all()[f.File] != nil }

// keepGarbage returns why garbage stays in files of v, or nil.
func (b *badValues) keepGarbage(v *manifest.Version) error {
	var errs []error
	for _, f := range v.Values {
		if err := b.all()[f.File]; err != nil && f.Live < f.Bytes {
			errs = append(errs, fmt.Errorf("%d bytes of garbage stay in %s: %w", f.Bytes-f.Live, base.ValueName(f.File), err))
		}
	}
	return errors.Join(errs...)
}

// keepValues returns why values of a range of v stay where they are, or nil. Hi is
// exclusive; nil is no bound.
func (b *badValues) keepValues(v *manifest.Version, lo, hi []byte) error {
	bad, told := b.all(), map[base.FileNum]bool{}
	if len(bad) == 0 {
		return nil
	}
	var errs []error
	for level := range v.Levels {
		for _, t := range v.Overlapping(level, lo, hi, true) {
			for _, ref := range t.Values {
				f, ok := v.Value(ref.File)
				if !ok || bad[f.File] == nil || told[f.File] {
					continue
				}
				told[f.File] = true
				errs = append(errs, fmt.Errorf("values stay in %s: %w", base.ValueName(f.File), bad[f.File]))
			}
		}
	}
	return errors.Join(errs...)
}
