package values

import (
	"errors"
	"fmt"
	"iter"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
)

// A Live is a record that a table refers to.
type Live struct {
	Pointer Pointer
	Key     []byte
	Seq     base.SeqNum
}

// A RewriteJob describes the collection of one file.
type RewriteJob struct {
	// Source is the file with the garbage. Rewrite reads it by large reads, not
	// through the mapping. It may be in use.
	Source *Reader
	// Out is the new, empty file. The caller closes it, and removes it after an
	// error.
	Out vfs.File
	// Salt is the salt of the new file.
	Salt uint64
	// Live yields all records that must stay, in their order in the new file.
	// It may yield the same record several times. A key is valid until the
	// next.
	Live iter.Seq2[Live, error]
	// Stop is that of a Copier.
	Stop func() error
}

// ErrNothingLive says that the caller must drop the file instead of rewriting it.
var ErrNothingLive = errors.New("values: nothing in the file is live")

// Rewrite copies the live records of a file into a new one, which replaces the old
// one. It has the same identity, and a remap from the offsets in pointers. Keys,
// versions and values are copied unchanged and verified. The contents of the new file
// are durable when Rewrite returns; the caller syncs its name. Readers of the old file
// continue undisturbed.
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
	c := rewriter{job: job, w: w, from: from, copied: make([]uint64, from.v.end/(64*unit)+1)}
	if err := c.copyAll(); err != nil {
		return Properties{}, fmt.Errorf("rewrite value file: %w", src.inFile(err))
	}
	return w.finish(c.moved)
}

// A rewriter is a running Rewrite.
type rewriter struct {
	job   RewriteJob
	w     *Writer
	from  *Copier
	moved []move
	// copied has a bit for each offset of a copied record in the old file.
	copied []uint64
}

func (c *rewriter) copyAll() error {
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
