package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	libiter "github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

var errPlace = errors.New("no place")

// A relayed is a relay to tables in memory.
type relayed struct {
	*relay
	fs   vfs.FS
	open atomic.Int64 // files
}

// A countedFile counts when it is closed.
type countedFile struct {
	vfs.File
	open *atomic.Int64
}

func (f countedFile) Close() error {
	f.open.Add(-1)
	return f.File.Close()
}

// newRelayed returns a relay whose builder calls place.
func newRelayed(exec *work.Executor, place func(e *base.Entry) (manifest.ValueRef, bool, error)) *relayed {
	r, files := &relayed{fs: memfs.New()}, base.FileNum(0)
	r.relay = newRelay(exec, compact.NewBuilder(compact.Job{
		Level: manifest.Levels - 1, TableSize: 256 << 10, Place: place,
		NewFile: func() (compact.NewFile, error) {
			files++
			f, err := r.fs.Create(fmt.Sprint(files), vfs.CatTable)
			r.open.Add(1)
			return compact.NewFile{Num: files, File: countedFile{f, &r.open}, Salt: uint64(files)}, err
		},
	}, exec))
	return r
}

// relayKey appends key number i to dst.
func relayKey(dst []byte, i int) []byte { return fmt.Appendf(dst, "key-%08d", i) }

// relayValue returns value number i, which may be large.
func relayValue(i int) []byte {
	return bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 1+i%50+i%97/96*lentMin)
}

func TestRelay_KeepsOrderAndEveryEntryWhileTheCallerReusesItsMemory(t *testing.T) {
	t.Parallel()
	for _, exec := range []*work.Executor{{}, {Manual: true}} {
		const n = 20_000
		r := newRelayed(exec, nil)
		var key, value []byte
		for i := range n {
			key, value = relayKey(key[:0], i), append(value[:0], relayValue(i)...)
			if err := r.add(&base.Entry{Key: key, Value: value, Seq: base.SeqNum(1 + i%7), Meta: base.Meta{Kind: base.KindSet, User: byte(i)}}); err != nil {
				t.Fatal(err)
			}
			clear(key)
			clear(value)
		}
		result, err := r.finish()
		if err != nil || len(result.Tables) < 2 || r.open.Load() != 0 {
			t.Fatalf("%d tables, %d files open: %v", len(result.Tables), r.open.Load(), err)
		}
		i := 0
		for _, m := range result.Tables {
			i += r.compare(t, m, i)
		}
		if i != n {
			t.Errorf("the tables have %d entries, want %d", i, n)
		}
	}
}

// compare compares a table with entries from number from on, and returns their number.
func (r *relayed) compare(t *testing.T, m *manifest.Table, from int) (n int) {
	t.Helper()
	f, err := r.fs.Open(fmt.Sprint(m.Num), vfs.CatTable)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := table.Open(f, m.Size, fmt.Sprint(m.Num), table.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tab.Close() }()
	var v libiter.Visible
	v.Init([]libiter.Input{{Source: tab.NewIter(table.IterOptions{})}}, false, nil, nil, libiter.Snapshot{At: base.SeqNumMax, AllVersions: true})
	for ok := v.Seek(nil); ok; ok = v.Next() {
		i, e := from+n, v.Entry
		if n++; !bytes.Equal(e.Key, relayKey(nil, i)) || !bytes.Equal(e.Value, relayValue(i)) || e.Seq != base.SeqNum(1+i%7) || e.Meta.User != byte(i) {
			t.Fatalf("entry %d is %q#%d with %d bytes", i, e.Key, e.Seq, len(e.Value))
		}
	}
	if v.Err() != nil {
		t.Fatal(v.Err())
	}
	return n
}

// The error of the builder reaches the caller by finish, no call hangs after it, and
// abandon leaves no file open.
func TestRelay_TellsTheErrorOfTheBuilder(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, lentMin} {
		for _, at := range []int{0, 100, 5000} {
			placed := 0
			r := newRelayed(new(work.Executor), func(*base.Entry) (ref manifest.ValueRef, apart bool, err error) {
				if placed++; placed > at {
					err = errPlace
				}
				return ref, false, err
			})
			var err error
			i := 0
			for ; i <= at+4*parcels*parcelSize/passedSize && err == nil; i++ {
				err = r.add(&base.Entry{Key: relayKey(nil, i), Value: make([]byte, size), Meta: base.Meta{Kind: base.KindSet}})
			}
			if !errors.Is(err, errPlace) {
				t.Errorf("%d calls after an error at entry %d return %v", i, at, err)
			}
			if _, err := r.finish(); !errors.Is(err, errPlace) {
				t.Errorf("finish returns %v", err)
			}
			if r.abandon(); r.open.Load() != 0 || placed != at+1 {
				t.Errorf("%d files are open, %d entries were placed, want %d", r.open.Load(), placed, at+1)
			}
		}
	}
}

func TestRelay_AbandonEndsTheGoroutineAndClosesFiles(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 30_000} {
		r := newRelayed(new(work.Executor), nil)
		for i := range n {
			if err := r.add(&base.Entry{Key: relayKey(nil, i), Meta: base.Meta{Kind: base.KindSet}}); err != nil {
				t.Fatal(err)
			}
		}
		r.abandon()
		select {
		case <-r.ended:
		default:
			t.Error("the goroutine goes on")
		}
		if r.open.Load() != 0 {
			t.Errorf("%d files are open", r.open.Load())
		}
	}
}
