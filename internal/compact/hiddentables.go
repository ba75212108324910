package compact

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// WithoutHidden returns the tables of a merge without those in which range
// deletions of the merge hide everything from every snapshot. None of it would
// stay, so it need not be read. oldest is the oldest snapshot.
func WithoutHidden(inputs [manifest.Levels][]*manifest.Table, by *rangedel.List, oldest base.SeqNum) (rest [manifest.Levels][]*manifest.Table) {
	var c rangedel.Cursor
	c.Init(false)
	c.Add(by, oldest, 0)
	for level, tables := range inputs {
		for _, t := range tables {
			if c.Empty() || !isHidden(&c, t) {
				rest[level] = append(rest[level], t)
			}
		}
	}
	return rest
}

// isHidden reports whether deletions newer than all of t cover all of it. Its own
// range deletions then hide nothing more.
func isHidden(by iter.Cover, t *manifest.Table) bool {
	key := t.Smallest
	for {
		seq, until := by.At(key)
		if seq <= t.LargestSeq {
			return false
		}
		invariant.Check(until != nil, "a range deletion of %q without an end", key)
		if order := bytes.Compare(until, t.Largest); order > 0 || order == 0 && t.LargestExclusive {
			return true
		}
		key = until
	}
}
