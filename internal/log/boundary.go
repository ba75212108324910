package log

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
)

// A boundary is a place between two records of a segment.
type boundary struct {
	offset int64
	chain  uint64 // the checksum of the frame before it
	// records is the number of records before it, in a segment that is replayed.
	records int64
}

// startOf returns the boundary before the first record of a segment.
func startOf(salt uint64) boundary { return boundary{offset: record.Start, chain: salt} }

// sealedAt returns the span from first on that ends at a place in segment number.
func sealedAt(first base.SegmentRef, number uint64, at boundary) base.LogSpan {
	return base.LogSpan{First: first, Sealed: true, EndNumber: number, End: at.offset, EndChain: at.chain}
}

// boundariesMax is the largest number of boundaries remembered per segment.
const boundariesMax = 1024

// boundaries are places between records at which one segment could be sealed,
// in ascending order. The first is the best one known to lie below the durable
// offset. The others wait for the durable offset to pass them. When there are
// too many, add drops every second one: the seal then lies a little earlier
// and Create carries a little more.
type boundaries []boundary

// add appends the boundary behind the last record.
func (b *boundaries) add(at boundary) {
	if len(*b) == boundariesMax {
		kept := (*b)[:1]
		for i := 2; i < len(*b); i += 2 {
			kept = append(kept, (*b)[i])
		}
		*b = kept
	}
	*b = append(*b, at)
}

// advance drops the boundaries that a better one below durable replaces.
func (b *boundaries) advance(durable int64) {
	drop := 0
	for drop+1 < len(*b) && (*b)[drop+1].offset <= durable {
		drop++
	}
	if drop > 0 {
		*b = append((*b)[:0], (*b)[drop:]...)
	}
}

// seal returns the last boundary that is known to be durable.
func (b boundaries) seal() boundary { return b[0] }
