package table

import "github.com/stoatdb/stoat/internal/mutant"

const (
	// fetchMin and fetchMax bound, in bytes, what one iterator reads ahead at
	// once. It starts small because most ranges are short.
	fetchMin = 32 << 10
	fetchMax = 1 << 20
)

// A span is a part of the file.
type span struct{ from, to int64 }

// An advance is the part of the file that an iterator has read ahead.
type advance struct {
	span
	hinted bool // the read was only started
}

// fetch makes sure that [off, off+n) has been read from the file before its first
// access. With hint it only starts to read. An iterator that moves from block to block
// doubles its read-ahead: one system call then covers many blocks.
func (s *advance) fetch(it *Iter, off, n int64, hint bool) error {
	// WillNeed decrypts nothing. So a page of a sealed table still has no bytes after a hint,
	// and fetch must read it.
	if off >= s.from && off+n <= s.to && (hint || !s.hinted || mutant.On(mutant.HintTrusted)) {
		return nil
	}
	want, bring := n, it.r.lookUp
	if it.inOrder > 0 {
		want, bring = max(n, min(fetchMax, max(fetchMin, 2*(s.to-s.from)))), it.r.populate
	}
	from := off
	to := min(off+want, it.r.dataEnd)
	if it.opts.Reverse {
		from, to = max(0, off+n-want), off+n
	}
	if hint {
		// A read of the part reports errors.
		_ = it.r.m.WillNeed(from, to-from)
	} else if err := bring(from, to-from); err != nil {
		if want == n {
			return err
		}
		// What cannot be read may lie outside of the part.
		from, to = off, off+n
		if err := it.r.populate(from, n); err != nil {
			return err
		}
	}
	*s = advance{span{from, to}, hint}
	return nil
}
