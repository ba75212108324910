package tree

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// BenchmarkViewBesideValueFiles makes the view of a version that has one more value
// file than the previous one: once given the old view, once without.
func BenchmarkViewBesideValueFiles(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		var before, after manifest.Version
		for i := range n + 1 {
			num := base.FileNum(i + 1)
			after.Values = append(after.Values, manifest.LiveValues{ValueFile: &manifest.ValueFile{Num: num, File: num}})
		}
		before.Values = after.Values[:n]
		files := New(Options{FS: memfs.New(), Dir: "/db"})
		old := files.View(&before, nil)
		files.View(&after, old)
		for _, known := range []bool{true, false} {
			b.Run(fmt.Sprintf("files=%d/known=%v", n, known), func(b *testing.B) {
				for b.Loop() {
					if known {
						files.View(&after, old)
					} else {
						files.View(&after, nil)
					}
				}
			})
		}
	}
}
