package collect

import (
	"slices"

	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/values"
)

// A Batch is value files with garbage. The collector collects those of now, and then
// chooses anew. It will probably choose those of next.
type Batch struct {
	now, next []values.Choice
	copied    uint64 // bytes, by those of now
	copyMax   uint64 // about how many bytes those of now may copy; 0 is batchBytes
	memory    uint64 // about the bytes that a LiveSet of all of them takes
}

const (
	// batchBytes is about how many bytes one collection copies.
	batchBytes = 64 << 20
	// nextFiles bounds how many files are chosen that are not collected now.
	nextFiles = 128
)

// Full reports whether the batch has enough files. most is the number of bytes that a
// LiveSet of them may take.
func (b *Batch) Full(most int) bool {
	return !b.copiesMore() && (b.memory >= uint64(most) || len(b.next) >= nextFiles)
}

// Add adds a file, and reports whether the file is collected now.
func (b *Batch) Add(choice values.Choice, f manifest.LiveValues) (now bool) {
	if now = b.copiesMore(); now {
		b.now = append(b.now, choice)
		b.copied += choice.Copy
	} else {
		b.next = append(b.next, choice)
	}
	b.memory += uint64(float64(f.Values) * float64(choice.Copy) / float64(max(f.Bytes, 1)) * liveEstimate)
	return now
}

// copiesMore reports whether another file is collected now.
func (b *Batch) copiesMore() bool {
	most := b.copyMax
	if most == 0 {
		most = batchBytes
	}
	return b.copied < most
}

// Empty reports whether nothing is collected now.
func (b *Batch) Empty() bool { return len(b.now) == 0 }

// Keep keeps the files for which keep is true.
func (b *Batch) Keep(keep func(values.Choice) bool) {
	drop := func(c values.Choice) bool { return !keep(c) }
	b.now, b.next = slices.DeleteFunc(b.now, drop), slices.DeleteFunc(b.next, drop)
}
