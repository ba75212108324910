package vfs

// writeBackStep is how much of a file is written before the system is told to
// start writing it back.
const writeBackStep = 1 << 20

// A WriteBack has the system write a file to the device in step with the file's
// growth, from front to back. No more than two steps are on their way at once:
// the device takes requests in turn, so that the sync of a commit waits for all
// that were sent before it. Without any of this, the sync that ends the file
// would send all of it at once.
type WriteBack struct {
	file    File
	started int64 // what lies before it is being written back
	ended   int64 // what lies before it was waited for
}

// NewWriteBack returns the WriteBack of a file that is empty, or of which
// nothing is to be written again.
func NewWriteBack(file File) WriteBack { return WriteBack{file: file} }

// Reached says that the file has been written up to off. Its error means that
// what was written may be lost: the file is of no use any more.
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

// Rewind says that the file will be written again from off on.
func (w *WriteBack) Rewind(off int64) {
	w.started, w.ended = min(w.started, off), min(w.ended, off)
}
