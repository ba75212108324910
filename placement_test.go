package stoat

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A noValues keeps nothing of what value files are given.
type noValues struct{ vfs.FS }

type noFile struct{ vfs.File }

func (n noValues) Create(name string, c vfs.Category) (vfs.File, error) {
	f, err := n.FS.Create(name, c)
	if c == vfs.CatValue {
		f = noFile{f}
	}
	return f, err
}

func (noFile) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }

// Whoever collects one of them does not copy the others.
func TestAValueLargerThanAValueFileSharesItsFileWithNoOther(t *testing.T) {
	t.Parallel()
	db := openStillOn(t, noValues{memfs.New()})
	all := make([]byte, valueFileSize)
	p := placement{db: db}
	for i, size := range []int{1000, valueFileSize, 1000, 1000, valueFileSize / 2, valueFileSize / 2} {
		e := base.Entry{Key: fmt.Appendf(nil, "%d", i), Value: all[:size]}
		if _, err := p.append(&e, base.SeqNum(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.finish(); err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for _, f := range p.made {
		if got = append(got, f.Values); f.Values > 1 && f.Size > valueFileSize+valueFileSize/100 {
			t.Errorf("a file of %d values has %d bytes", f.Values, f.Size)
		}
	}
	if want := []uint64{1, 1, 3, 1}; !slices.Equal(got, want) {
		t.Errorf("files of %d values, want %d", got, want)
	}
}
