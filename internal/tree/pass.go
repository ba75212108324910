package tree

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
)

var _ iter.Passer = (*Iter)(nil)

// Pass implements iter.Passer. It passes only tables that have nothing newer than upTo.
func (it *Iter) Pass(bound []byte, upTo base.SeqNum) {
	if !it.reads() || it.table().LargestSeq > upTo {
		return
	}
	if it.level.newest <= upTo && (it.opts.Reverse || bound != nil) {
		it.Seek(bound)
		return
	}
	for it.reads() && it.table().LargestSeq <= upTo && it.before(bound) {
		it.step()
		it.open()
	}
	switch {
	case !it.reads():
	case it.table().LargestSeq <= upTo:
		it.in.Seek(bound)
	default:
		it.in.Seek(nil)
	}
}

// table returns the current table.
func (it *Iter) table() *Table { return it.level.tables[it.at] }

// before reports whether all keys of the current table come before the bound, in the
// direction of iteration.
func (it *Iter) before(bound []byte) bool {
	if it.opts.Reverse {
		return bytes.Compare(it.table().Smallest, bound) >= 0
	}
	return bound == nil || it.table().EndsBefore(bound)
}
