package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The first table cannot be synced. The error is known when the second one ends.
func TestRelay_AbandonClosesTheTableThatWasWrittenWhenTheOneBeforeFailed(t *testing.T) {
	for _, exec := range []*work.Executor{{}, {Manual: true}} {
		fs := faultfs.New(memfs.New())
		r := &relayed{fs: fs}
		files := base.FileNum(0)
		r.relay = newRelay(exec, compact.NewBuilder(compact.Job{
			Level: manifest.Levels - 1, TableSize: 256 << 10,
			NewFile: func() (compact.NewFile, error) {
				files++
				f, err := fs.Create(fmt.Sprint(files), vfs.CatTable)
				r.open.Add(1)
				return compact.NewFile{Num: files, File: countedFile{f, &r.open}, Salt: uint64(files)}, err
			},
		}, exec))
		fs.Add(faultfs.Rule{Op: vfs.OpSyncData, Nth: 1})
		var err error
		for i := 0; i < 400 && err == nil; i++ { // more than one table, less than two
			err = r.add(&base.Entry{Key: relayKey(nil, i), Value: bytes.Repeat([]byte{byte(i)}, 1000), Seq: 1, Meta: base.Meta{Kind: base.KindSet}})
			time.Sleep(10 * time.Microsecond)
		}
		if err == nil {
			_, err = r.finish()
		}
		if !errors.Is(err, faultfs.ErrInjected) {
			t.Errorf("manual %t: error %v", exec.Manual, err)
		}
		result := r.abandon()
		if n := r.open.Load(); n != 0 {
			t.Errorf("manual %t: %d of %d files are open after abandon", exec.Manual, n, len(result.Files))
		}
	}
}
