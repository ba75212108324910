package log

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

const fileSuffix = ".log"

// A segmentFile describes the file of a segment in the directory.
type segmentFile struct {
	number uint64 // of the segment that it holds or last held; 0 if unknown
	file   uint64
	size   int64
	// written says that all blocks are known to be written, not only reserved.
	// Recovery cannot know it of any file; see wholeSize.
	written bool
}

// FileName returns the base name of the log file with the given number.
func FileName(file uint64) string { return fmt.Sprintf("%06d%s", file, fileSuffix) }

// ParseFileName is the inverse of FileName. It reports false for any name
// that FileName does not return.
func ParseFileName(name string) (file uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, fileSuffix)
	if !ok {
		return 0, false
	}
	file, err := strconv.ParseUint(digits, 10, 64)
	return file, err == nil && file <= record.NumberMax && FileName(file) == name
}

// path returns the path of the log file with the given number.
func (o *Options) path(file uint64) string { return o.FS.Join(o.Dir, FileName(file)) }

// listFiles returns the numbers of the log files of the directory in order. It
// reads no headers.
func (o *Options) listFiles() ([]uint64, error) {
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("log: list %s: %w", o.Dir, err)
	}
	var files []uint64
	for _, name := range names {
		if file, ok := ParseFileName(name); ok {
			files = append(files, file)
		}
	}
	return files, nil
}

// inFile adds the file name to err: as a field of a CorruptionError, in front
// of any other error.
func (o *Options) inFile(err error, verb string, file uint64) error {
	err = base.InFile(err, FileName(file))
	return fmt.Errorf("log: %s %s: %w", verb, o.path(file), err)
}

// closeQuietly closes a file that was only read, or whose last sync has already
// reported any failure. The result of Close says nothing about the data.
func closeQuietly(f vfs.File) { _ = f.Close() }
