package device

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"golang.org/x/sys/unix"
)

// writeChunk is the size in bytes of a sequential write.
const writeChunk = 1 << 20

// disk measures the device of dir.
func disk(limits map[string]float64, dir string, length time.Duration, size int64) error {
	// Direct access needs aligned memory, as a mapping provides.
	chunk, err := measure.OffHeap(writeChunk)
	if err != nil {
		return err
	}
	for i := range chunk {
		chunk[i] = byte(i * 131 >> 3)
	}
	path := filepath.Join(dir, "limits")
	for _, mode := range []struct {
		name string
		flag int
	}{{"buffered", 0}, {"direct", unix.O_DIRECT}} {
		if err := sequentialWrites(limits, path, mode.name, mode.flag, chunk, size); err != nil {
			return err
		}
		if err := randomReads(limits, path, mode.name, mode.flag, length); err != nil {
			return err
		}
	}
	limits["read_depth_16_per_s"] = max(limits["read_buffered_depth_16_per_s"], limits["read_direct_depth_16_per_s"])
	if err := syncLatency(limits, path+"-sync", chunk[:blockSize], length); err != nil {
		return err
	}
	return errors.Join(os.Remove(path), os.Remove(path+"-sync"))
}

// unsupported returns whether the file system lacks direct access. The figures
// of direct access are then absent.
func unsupported(err error) bool { return errors.Is(err, unix.EINVAL) }

// sequentialWrites measures writing a new file and overwriting it in place. The
// new file needs blocks and, if buffered, memory pages, which a virtual machine
// may have to request from its host. The overwrite needs only the copy and the
// device.
func sequentialWrites(limits map[string]float64, path, name string, flag int, chunk []byte, size int64) (err error) {
	// Earlier dirty pages must not count as part of these writes.
	if err := measure.FlushFileSystem(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|flag, 0o600)
	if unsupported(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if limits["write_"+name+"_mb_per_s"], err = sequentialWrite(f, chunk, size); err != nil {
		return err
	}
	limits["rewrite_"+name+"_mb_per_s"], err = sequentialWrite(f, chunk, size)
	return err
}

// sequentialWrite writes size bytes at the start of f, syncs them, and returns
// the rate of both together.
func sequentialWrite(f *os.File, chunk []byte, size int64) (megabytesPerSecond float64, err error) {
	began := time.Now()
	for at := int64(0); at < size; at += writeChunk {
		if _, err := f.WriteAt(chunk, at); err != nil {
			return 0, fmt.Errorf("sequential write: %w", err)
		}
	}
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		return 0, fmt.Errorf("fdatasync: %w", err)
	}
	return float64(size) / time.Since(began).Seconds() / 1e6, nil
}

// syncLatency measures the sync after a write that extends the file, and after
// a write into existing blocks.
func syncLatency(limits map[string]float64, path string, block []byte, length time.Duration) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	end, err := timeSyncs(limits, "sync_append", f, block, 1<<40, length)
	if err != nil {
		return err
	}
	_, err = timeSyncs(limits, "sync_overwrite", f, block, end, length)
	return err
}

// timeSyncs writes and syncs blocks in sequence for the given time. It starts
// again at offset 0 when it reaches wrap, and returns the bytes written.
func timeSyncs(limits map[string]float64, name string, f *os.File, block []byte, wrap int64, length time.Duration) (int64, error) {
	var h measure.Histogram
	var at int64
	for began := time.Now(); time.Since(began) < length || at == 0; at += blockSize {
		one := time.Now()
		if _, err := f.WriteAt(block, at%wrap); err != nil {
			return 0, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, fmt.Errorf("fdatasync: %w", err)
		}
		h.Record(time.Since(one))
	}
	limits[name+"_p50_us"] = float64(h.Quantile(0.5)) / 1e3
	limits[name+"_p99_us"] = float64(h.Quantile(0.99)) / 1e3
	return at, nil
}
