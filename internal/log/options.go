package log

import (
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// Options tune a log. Zero fields mean their defaults, except FS, Dir and
// Random, which must be given.
type Options struct {
	FS  vfs.FS
	Dir string
	// Random returns 64 random bits. It supplies the salts of segments.
	Random func() uint64
	// Seal makes the keys of segments. It is nil if the log is not encrypted.
	Seal record.Sealer

	// SegmentSizeMin and SegmentSizeMax bound the size in bytes of a segment,
	// header included. Defaults: 256 KiB and 16 MiB.
	SegmentSizeMin, SegmentSizeMax int64

	// FrameSizeMax is the largest payload of a frame in bytes; larger
	// transactions take several. Default and maximum: record.MaxPayload.
	FrameSizeMax int

	// Space knows what the disk must keep free. Default: the disk has room for any segment.
	Space Space

	// Go runs a background job. Default: in a goroutine of its own.
	Go func(job func())
}

// A Space promises bytes of the disk to the log, beside what flushes and other jobs need.
type Space interface {
	// Promise promises that many bytes, if there is room. It does not wait.
	Promise(bytes int64) bool
	// Taken ends a promise of that many bytes.
	Taken(bytes int64)
}

// An ampleSpace has room for anything.
type ampleSpace struct{}

func (ampleSpace) Promise(int64) bool { return true }
func (ampleSpace) Taken(int64)        {}

const (
	segmentSizeMinDefault = 256 << 10
	segmentSizeMaxDefault = 16 << 20
	// segmentSizeLeast is the smallest allowed SegmentSizeMin in bytes. It holds
	// the header, a small record and the room kept for the last frames.
	segmentSizeLeast = 5 * sizeUnit
	// sizeUnit in bytes divides the size of every segment.
	sizeUnit = 4096
)

// withDefaults returns a copy of o with every field filled in and checked.
func (o Options) withDefaults() (Options, error) {
	if o.FS == nil || o.Random == nil {
		return o, errors.New("log: Options.FS and Options.Random must be set")
	}
	if o.SegmentSizeMin == 0 {
		o.SegmentSizeMin = segmentSizeMinDefault
	}
	if o.SegmentSizeMax == 0 {
		o.SegmentSizeMax = max(segmentSizeMaxDefault, o.SegmentSizeMin)
	}
	if o.FrameSizeMax == 0 {
		o.FrameSizeMax = record.MaxPayload
	}
	if o.Space == nil {
		o.Space = ampleSpace{}
	}
	if o.Go == nil {
		o.Go = func(job func()) { go job() }
	}
	if o.SegmentSizeMin < segmentSizeLeast || o.SegmentSizeMin > o.SegmentSizeMax {
		return o, fmt.Errorf("log: Options.SegmentSizeMin is %d, want %d to SegmentSizeMax, %d",
			o.SegmentSizeMin, segmentSizeLeast, o.SegmentSizeMax)
	}
	if o.FrameSizeMax < 1 || o.FrameSizeMax > record.MaxPayload {
		return o, fmt.Errorf("log: Options.FrameSizeMax is %d, want 1 to %d",
			o.FrameSizeMax, record.MaxPayload)
	}
	return o, nil
}
