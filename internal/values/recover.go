package values

import (
	"errors"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/vfs"
)

// Recover takes up a file that was being written when the process or the
// machine stopped. upTo is where the last record ends that the log refers to.
//
// It keeps the records from the first on that are whole and lie before upTo,
// cuts the rest, and returns a Writer to seal the file with. What it keeps ends
// at the Writer's Size: a pointer in the log that reaches beyond that belongs to
// a commit that was never acknowledged, or the file is corrupt; only who reads
// the log can tell which. A file without a whole header is corrupt; when the log
// refers to nothing in it, the file need not be recovered at all.
func Recover(file vfs.File, upTo int64, opts WriterOptions) (*Writer, error) {
	want := fileHeader{salt: opts.Salt, num: opts.Num}
	if err := readHeader(file, want); err != nil {
		return nil, err
	}
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	w := newWriter(file, opts)
	s := source{file: file, fileHeader: want}
	end, err := s.walk(min(size, upTo), func(_ int64, h header) { w.foot.add(h) })
	if err != nil && !errors.Is(err, base.ErrCorrupt) {
		return nil, err
	}
	w.out.off, w.out.started, w.out.high = end, end, size
	return w, nil
}
