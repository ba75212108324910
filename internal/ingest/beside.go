package ingest

import (
	"github.com/stoatdb/stoat/internal/scratch"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// besideBuffers is the number of buffers of scratch.Size bytes of a besideFile.
const besideBuffers = 3

// A besideFile is a new file that a goroutine of its own writes, in the order of the
// calls. So the caller prepares the next bytes while the system takes the last ones. An
// error of a write is that of a later call, of SyncData at the latest. One goroutine at a
// time uses it, and only to write. Close ends the goroutine.
type besideFile struct {
	vfs.File
	calls  chan func() error
	free   chan []byte   // buffers
	made   int           // buffers so far
	failed chan struct{} // closed after the first error, which is then in err
	err    error
	ended  chan struct{}
}

// beside returns a besideFile of a file. With a manual executor, it returns the file.
func beside(exec *work.Executor, file vfs.File) vfs.File {
	if exec.Manual {
		return file
	}
	f := &besideFile{File: file, calls: make(chan func() error, besideBuffers), free: make(chan []byte, besideBuffers),
		failed: make(chan struct{}), ended: make(chan struct{})}
	exec.Go(f.run)
	return f
}

func (f *besideFile) run() {
	defer close(f.ended)
	for call := range f.calls {
		if f.err != nil {
			continue
		}
		if f.err = call(); f.err != nil {
			close(f.failed)
		}
	}
}

// failure returns the first error so far, or nil.
func (f *besideFile) failure() error {
	select {
	case <-f.failed:
		return f.err
	default:
		return nil
	}
}

// WriteAt implements io.WriterAt.
func (f *besideFile) WriteAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		if err := f.failure(); err != nil {
			return n, err
		}
		part := append(f.buffer()[:0], b[n:min(len(b), n+scratch.Size)]...)
		at := off + int64(n)
		f.calls <- func() error {
			_, err := f.File.WriteAt(part, at)
			f.free <- part
			return err
		}
		n += len(part)
	}
	return n, nil
}

// buffer returns a buffer that no write uses.
func (f *besideFile) buffer() []byte {
	select {
	case b := <-f.free:
		return b
	default:
	}
	if f.made < besideBuffers {
		f.made++
		return make([]byte, 0, scratch.Size)
	}
	select {
	case b := <-f.free:
		return b
	case <-f.failed: // then buffers of later writes do not come back
		return make([]byte, 0, scratch.Size)
	}
}

// SyncRange implements vfs.File.
func (f *besideFile) SyncRange(off, n int64) error {
	f.calls <- func() error { return f.File.SyncRange(off, n) }
	return f.failure()
}

// WaitRange implements vfs.File.
func (f *besideFile) WaitRange(off, n int64) error {
	f.calls <- func() error { return f.File.WaitRange(off, n) }
	return f.failure()
}

// SyncData implements vfs.File. It waits for all writes.
func (f *besideFile) SyncData() error {
	synced := make(chan error, 1)
	f.calls <- func() error {
		err := f.File.SyncData()
		synced <- err
		return err
	}
	select {
	case err := <-synced:
		return err
	case <-f.failed: // by an earlier call, so run skips this one
		return f.err
	}
}

// Close implements io.Closer.
func (f *besideFile) Close() error {
	close(f.calls)
	<-f.ended
	err := f.failure()
	if e := f.File.Close(); err == nil {
		err = e
	}
	return err
}
