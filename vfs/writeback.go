package vfs

// writeBackStep is the number of bytes after which WriteBack starts to write a file to
// the device.
const writeBackStep = 1 << 20

// A WriteBack writes a growing file to the device step by step, from front to back. At
// most two steps are under way at the same time. A device processes requests in order,
// so the sync of a commit waits for all requests before it. Without WriteBack, the final
// sync of the file would send the whole file at once and delay commits.
//
// A WriteBack must not be used by several goroutines at the same time.
type WriteBack struct {
	file    File
	started int64 // offset up to which writes to the device were started
	ended   int64 // offset up to which writes to the device have ended
}

// NewWriteBack returns a WriteBack for a file that is empty, or whose existing contents
// will not be written again.
func NewWriteBack(file File) WriteBack { return WriteBack{file: file} }

// Reached tells the WriteBack that the file has been written up to off. An error means
// that written data may be lost. The caller must then discard the file.
func (w *WriteBack) Reached(off int64) error {
	if off-w.started < writeBackStep {
		return nil
	}
	if err := w.file.SyncRange(w.started, off-w.started); err != nil {
		return err
	}
	if err := w.file.WaitRange(w.ended, w.started-w.ended); err != nil {
		return err
	}
	w.ended, w.started = w.started, off
	return nil
}

// Rewind tells the WriteBack that the file will be written again from off on.
func (w *WriteBack) Rewind(off int64) {
	w.started, w.ended = min(w.started, off), min(w.ended, off)
}
