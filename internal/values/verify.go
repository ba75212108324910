package values

import (
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
)

// Verify reads the whole file again and checks everything that the file alone can tell.
// Before each record, and each part of a long one, it calls stop if it is not nil. An
// error of stop ends it.
func (r *Reader) Verify(stop func() error) error { return r.inFile(r.verifyAll(stop)) }

func (r *Reader) verifyAll(stop func() error) error {
	if stop == nil {
		stop = func() error { return nil }
	}
	f := &r.foot
	again := Reader{source: r.source}
	if err := again.open(f.size); err != nil {
		return err
	}
	if again.foot != *f {
		return base.Corrupt(f.size-footerSize, "footer of a value file", fmt.Sprintf("%+v", again.foot), fmt.Sprintf("%+v", *f))
	}
	seen := footer{fileHeader: f.fileHeader, size: f.size, recordsEnd: f.recordsEnd, remap: f.remap, remapSum: f.remapSum}
	starts := make(map[int64]bool)
	err := r.walk(f.recordsEnd, stop, func(at int64, h header) {
		seen.add(h)
		if f.remap.count > 0 {
			starts[at] = true
		}
	})
	if err != nil {
		return err
	}
	if seen != *f {
		return base.Corrupt(f.size-footerSize, "sums in a value file's footer", fmt.Sprintf("%+v", *f), fmt.Sprintf("%+v", seen))
	}
	return r.verifyRemap(starts)
}

// verifyRemap checks that the remap points to each record once.
func (r *Reader) verifyRemap(starts map[int64]bool) error {
	f := &r.foot
	if f.remap.count == 0 {
		return nil
	}
	section := make([]byte, f.remap.size())
	if err := r.read(section, f.recordsEnd); err != nil {
		return err
	}
	m, err := f.decodeRemap(section)
	if err != nil {
		return err
	}
	for i := range m.count {
		to := int64(load32(m.to, i)) * unit
		if !starts[to] {
			return base.Corrupt(f.recordsEnd, "offset in a remap", to, "the offset of a record, once")
		}
		delete(starts, to)
	}
	return nil
}
