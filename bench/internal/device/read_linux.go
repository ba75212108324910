package device

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"golang.org/x/sys/unix"
)

// randomReads measures random reads of blocks with 1, 16 and 32 concurrent
// reads.
func randomReads(limits map[string]float64, path, name string, flag int, length time.Duration) (err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|flag, 0)
	if unsupported(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	for _, depth := range []int{1, 16, 32} {
		// Buffered reads must neither find cached pages nor read ahead.
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return fmt.Errorf("fadvise: %w", err)
		}
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM); err != nil {
			return fmt.Errorf("fadvise: %w", err)
		}
		perSecond, err := readAtDepth(f, info.Size()/blockSize, depth, length)
		if err != nil {
			return err
		}
		limits[fmt.Sprintf("read_%s_depth_%d_per_s", name, depth)] = perSecond
	}
	return nil
}

// readAtDepth returns the reads per second. It ends early after reading a
// quarter of the file, so that few reads hit a cached block.
func readAtDepth(f *os.File, blocks int64, depth int, length time.Duration) (float64, error) {
	buffers, err := measure.OffHeap(depth * blockSize)
	if err != nil {
		return 0, err
	}
	var reads atomic.Int64
	errs := make([]error, depth)
	began := time.Now()
	var wg sync.WaitGroup
	for d := range depth {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(d), uint64(depth)))
			buf := buffers[d*blockSize : (d+1)*blockSize]
			for time.Since(began) < length && reads.Load() < blocks/4 {
				if _, errs[d] = f.ReadAt(buf, r.Int64N(blocks)*blockSize); errs[d] != nil {
					return
				}
				reads.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(reads.Load()) / time.Since(began).Seconds(), errors.Join(errs...)
}
