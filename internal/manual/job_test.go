package manual

import (
	"testing"

	"github.com/stoatdb/stoat/internal/manifest"
)

func TestEmptied_OnlyByTheDrop(t *testing.T) {
	t.Parallel()
	const num, bytes, made = 7, 100, -1
	for _, c := range []struct {
		name        string
		before, now int64 // live bytes; made says that the file is newer
		want        bool
	}{
		{"half of its values dropped", 100, 50, true},
		{"a quarter of its garbage", 70, 60, true},
		{"less than a quarter of its garbage", 30, 20, false},
		{"nothing dropped", 50, 50, false},
		{"a large commit that was in memory", 0, 50, true},
		{"a large commit, nothing dropped", 0, 100, false},
		{"a file made since", made, 50, false},
	} {
		f := manifest.LiveValues{ValueFile: &manifest.ValueFile{Num: num, Bytes: bytes}, Live: uint64(c.now)}
		before := new(manifest.Version)
		if c.before != made {
			before.Values = []manifest.LiveValues{{ValueFile: f.ValueFile, Live: uint64(c.before)}}
		}
		if got := emptied(f, before); got != c.want {
			t.Errorf("%s: emptied %t, want %t", c.name, got, c.want)
		}
	}
}
