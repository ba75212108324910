package values

import (
	"errors"
	"fmt"
	"iter"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
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
	// Stop is that of a Copier.
	Stop func() error
}

// ErrNothingLive says that a file is to be dropped and not rewritten.
var ErrNothingLive = errors.New("values: nothing in the file is live")

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
	from, err := NewCopier(src, windowSize)
	if err != nil {
		return Properties{}, err
	}
	defer from.in.release()
	from.Stop = job.Stop
	c := rewriting{job: job, w: w, from: from, copied: make([]uint64, from.v.end/(64*unit)+1)}
	if err := c.copyAll(); err != nil {
		return Properties{}, fmt.Errorf("rewrite value file: %w", src.inFile(err))
	}
	return w.finish(c.moved)
}

// A rewriting is a Rewrite under way.
type rewriting struct {
	job   RewriteJob
	w     *Writer
	from  *Copier
	moved []move
	// copied has a bit for each offset in the old file at which a record that
	// was copied lies.
	copied []uint64
}

func (c *rewriting) copyAll() error {
	some := false
	for live, err := range c.job.Live {
		if err != nil {
			return err
		}
		some = true
		at, err := c.from.v.place(live.Pointer)
		if err != nil {
			return err
		}
		word, bit := &c.copied[at/(64*unit)], uint64(1)<<(at/unit%64)
		if *word&bit != 0 {
			continue
		}
		*word |= bit
		to, err := c.from.copyAt(c.w, live, at, false)
		if err != nil {
			return err
		}
		c.moved = append(c.moved, move{live.Pointer.Offset, to.Offset})
	}
	if !some {
		return ErrNothingLive
	}
	return nil
}
