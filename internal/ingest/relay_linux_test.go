package ingest

import (
	"errors"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// The device of the caller's value is lost while the relay reads the value.
func TestRelay_AFaultInALentValueIsAnError(t *testing.T) {
	t.Parallel()
	f, err := vfs.OS().Create(t.TempDir()+"/f", vfs.CatNone)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 2*lentMin), 0); err != nil {
		t.Fatal(err)
	}
	m, err := f.Map(2 * lentMin)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := errors.Join(f.Truncate(0), f.Close()); err != nil {
		t.Fatal(err)
	}
	r := newRelayed(&work.Executor{}, nil)
	err = r.add(&base.Entry{Key: []byte("key"), Value: m.Bytes(), Seq: 1, Meta: base.Meta{Kind: base.KindSet}})
	if err == nil {
		_, err = r.finish()
	}
	if !errors.Is(err, vfs.ErrIO) {
		t.Errorf("error %v, want %v", err, vfs.ErrIO)
	}
	r.abandon()
}
