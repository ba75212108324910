package values

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/vfs"
)

// A Live is a record that something refers to.
type Live struct {
	Pointer Pointer
	Key     []byte
	Seq     base.SeqNum
}

// A RewriteJob says what is to be collected.
type RewriteJob struct {
	// Source is the file with the garbage. It is read by large reads, past
	// the mapping, and may be in use.
	Source *Reader
	// Out is the new file, empty. Who created it closes it, and removes it
	// after an error.
	Out vfs.File
	// Salt is that of the new file.
	Salt uint64
	// Live is all that must stay, in the order in which it is to lie in the
	// new file. The same record may come several times. The key is borrowed
	// until the next.
	Live iter.Seq2[Live, error]
	// Stop is asked now and then whether to give up, if it is not nil.
	Stop func() error
}

// ErrNothingLive says that a file is to be dropped and not rewritten.
var ErrNothingLive = errors.New("values: nothing in the file is live")

// stopEvery is how many records are copied between two questions to Stop.
const stopEvery = 256

// sequentialGap is how far behind the last record the next one may begin, to
// be taken for the continuation of a walk in order.
const sequentialGap = 64 << 10

// Rewrite copies what is live of a file into a new one, which takes the old
// one's place: same identity, and a remap from the offsets in pointers. Keys,
// versions and values are copied as they are, and verified on the way. The new
// file is durable when Rewrite returns; its name is the caller's to sync, and
// readers of the old one go on undisturbed.
func Rewrite(job RewriteJob) (Properties, error) {
	src := job.Source
	w, err := NewWriter(job.Out, WriterOptions{Num: src.num, Salt: job.Salt})
	if err != nil {
		return Properties{}, err
	}
	v := &view{end: src.foot.recordsEnd}
	if src.foot.remap.count > 0 {
		if v, err = src.mapped(); err != nil {
			return Properties{}, err
		}
	}
	c := copier{job: job, w: w, v: v, in: window{file: src.file}, copied: make([]uint64, v.end/(64*unit)+1)}
	if err := c.copyAll(); err != nil {
		return Properties{}, fmt.Errorf("rewrite value file: %w", src.inFile(err))
	}
	return w.finish(c.moved)
}

// A copier is a Rewrite under way.
type copier struct {
	job   RewriteJob
	w     *Writer
	v     *view
	in    window
	last  int64 // where the record ends that was copied last
	moved []move
	// copied has a bit for each offset in the old file at which a record that
	// was copied lies.
	copied []uint64
}

func (c *copier) copyAll() error {
	n := 0
	for live, err := range c.job.Live {
		if err != nil {
			return err
		}
		if n++; n%stopEvery == 0 && c.job.Stop != nil {
			if err := c.job.Stop(); err != nil {
				return err
			}
		}
		at, err := c.v.place(live.Pointer)
		if err != nil {
			return err
		}
		word, bit := &c.copied[at/(64*unit)], uint64(1)<<(at/unit%64)
		if *word&bit != 0 {
			continue
		}
		*word |= bit
		to, err := c.copyOne(live, at)
		if err != nil {
			return err
		}
		c.moved = append(c.moved, move{live.Pointer.Offset, to.Offset})
	}
	if n == 0 {
		return ErrNothingLive
	}
	return nil
}

// copyOne copies the record at offset at.
func (c *copier) copyOne(live Live, at int64) (Pointer, error) {
	src, p := c.job.Source, live.Pointer
	if p.Length > windowSize {
		return c.copyLarge(live)
	}
	ahead := int64(0)
	if at >= c.last && at-c.last <= sequentialGap {
		ahead = windowSize
	}
	rec, err := c.in.read(at, p.Length, c.v.end, ahead)
	if err != nil {
		return Pointer{}, err
	}
	c.last = at + p.Length
	h, err := decodeHeader(rec, at, at+p.Length)
	if err != nil {
		return Pointer{}, err
	}
	if h.size() != p.Length || !h.is(p, live.Key, live.Seq, rec) {
		return Pointer{}, mismatch(at, &h, p, live.Seq)
	}
	if err := h.checkRecord(src.salt, at, rec); err != nil {
		return Pointer{}, err
	}
	if err := c.w.checkAppend(live.Key, 0); err != nil {
		return Pointer{}, err
	}
	return c.w.appendRecord(h, live.Key, rec[h.valueOff():h.valueEnd()])
}

// copyLarge copies a chunked value without having all of it in memory.
func (c *copier) copyLarge(live Live) (Pointer, error) {
	in, err := c.job.Source.NewValueReader(live.Pointer, live.Key, live.Seq)
	if err != nil {
		return Pointer{}, err
	}
	out, err := c.w.Stream(live.Key)
	if err != nil {
		return Pointer{}, err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Abort()
		return Pointer{}, err
	}
	return out.Finish(live.Seq)
}
