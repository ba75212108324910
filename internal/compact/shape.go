package compact

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// A Shape describes the desired tree and the present moment.
type Shape struct {
	// BaseSizeMin is the size in bytes below which a level above the last is not worth
	// having: about 8 memtables. It is also the smallest limit of level 0, and the
	// maximum size of a run that a merge of small runs makes. Default: 512 MiB.
	BaseSizeMin int64
	// TableSize is the size in bytes of a full table. Default: 32 MiB.
	TableSize int64
	// ValuesMin is the number of bytes of values that level 0 may always refer to. Above
	// it, level 0 may refer to a sixteenth of all values: what it replaced below is
	// known to be garbage only after compaction. Default: 64 MiB.
	ValuesMin int64
	// Replacing is the estimated fraction of the values of level 0 that replace others.
	// If it is large, the bound falls to an eighth of ValuesMin.
	Replacing float64
	// Slack is how many times as many values level 0 may refer to as usual, because the
	// database grows. Default: 1.
	Slack float64
	// RunsMax is the number of runs of level 0 that may hold one key; twice as many if
	// level 0 is wide. In all, level 0 may have eight times as many. Default: 12.
	RunsMax int
	// InputMax bounds the bytes of the inputs of one plan, unless no smaller plan is
	// possible. Default: 256 MiB.
	InputMax int64
	// CutFrom is a size in full tables. A manual job of a range cuts wide tables of level 0
	// rather than rewrite more of the base beside the range. With a negative number, the job
	// always cuts them. Default: 4.
	CutFrom int
	// OutputMax is the room in bytes for the output of a merge; 0 means no bound. A plan
	// whose inputs are no larger always fits. For other plans the picker estimates the
	// output. Useless reports that the estimate for a plan is known to be too low; it
	// may be nil.
	OutputMax int64
	Useless   func(plan *Plan) bool
	// DeletionAgeMs is the maximum age of tombstones in milliseconds. Older ones are
	// pushed to the bottom. Default: a day.
	DeletionAgeMs uint64

	// Versions is Rules.Versions, and the greatest of all keyspaces. Default: 1.
	Versions int
	// VersionsOf is Rules.VersionsOf.
	VersionsOf func(keyspace uint32) int
	// Discardable reports whether a table may hold versions with timestamps that no
	// reader can find any more. Versions that a job at the bottom has judged since the
	// discard point rose do not count. It may be nil.
	Discardable func(t *manifest.Table, level int) bool
	// DiscardPoint returns the lowest discard point of the keyspaces of a table with
	// timestamps, or 0. It is nil if Discardable is.
	DiscardPoint func(t *manifest.Table) uint64
	// Damaged are the tables that cannot be read. No plan reads them, so that work on the
	// others continues.
	Damaged map[base.FileNum]bool
	// BadValues holds the value files that cannot be read, by the numbers in their names.
	// Their values stay where they are.
	BadValues map[base.FileNum]error

	// Partials bound the keys of the partial entries in memory. What expired below them
	// may still be needed.
	Partials []Span

	// Hides maps a table of level 0 to the bytes that it is known to hide below.
	Hides map[base.FileNum]int64

	// Screens says that a compaction filter is registered. Then no table moves to another
	// level unchanged, so that the filter sees each value on its way down.
	Screens bool

	// Idle says that no foreground work needs the disk or the processors.
	Idle bool
	// Scarce means that the disk has too little space for some writer.
	Scarce bool
	// NowMs is the time in Unix milliseconds, as in Rules.
	NowMs uint64
	// AgeMs is the time that CreatedMs of tables is compared with. It goes on while NowMs
	// stands still. Default: NowMs.
	AgeMs uint64
	// OldestSnapshot is the first of Rules.Snapshots.
	OldestSnapshot base.SeqNum

	// shielded has the tables over which there are partial entries, see shield.
	shielded map[*manifest.Table]uint64
	// stuck are the tables that stay because of damage, see withoutStuck.
	stuck []*manifest.Table
}

// A Span is a range of keys, both bounds inclusive. At most Keys of them have partial
// entries.
type Span struct {
	Lo, Hi []byte
	Keys   uint64
}

// shield finds the tables whose expired values a merge may have to keep, because newer
// partial entries of the same keys may refer to them. It counts how many that may be, so that
// no merge is done again and again for them. Over a memtable, a merge keeps the values of its
// keys with partial entries. Over a table with partial entries, it keeps all values in the
// range of that table.
func (s *Shape) shield(v *manifest.Version) {
	s.shielded = nil
	some := len(s.Partials) > 0
	var partial []*manifest.Table // those over other tables
	for t := range v.Tables() {
		if t.Partials > 0 {
			some = true
			if t.Level < last {
				partial = append(partial, t)
			}
		}
	}
	if !some {
		return
	}
	s.shielded = map[*manifest.Table]uint64{}
	// A version lists newer tables first, and tables of one run or one level do not overlap.
	// So all that t overlaps in above is newer than t.
	above := newOverlaps(partial)
	for t := range v.Tables() {
		if t.Expiring > 0 {
			if n := s.under(t, above); n > 0 {
				s.shielded[t] = n
			}
		}
		if t.Partials > 0 && t.Level < last {
			above.add(t)
		}
	}
}

// under returns how many expired values of t a merge may have to keep. Partial entries lie
// in t, in tables above it, or in memory.
func (s *Shape) under(t *manifest.Table, above *overlaps) (kept uint64) {
	if t.Partials > 0 || above.meets(t) {
		return t.Expiring
	}
	for _, span := range s.Partials {
		if !t.EndsBefore(span.Lo) && !t.StartsAfter(span.Hi) {
			kept += span.Keys
		}
	}
	return kept
}

const (
	fanout = 10
	last   = manifest.Levels - 1
)

func (s Shape) withDefaults() Shape {
	for _, d := range []struct {
		field *int64
		value int64
	}{{&s.BaseSizeMin, 512 << 20}, {&s.TableSize, 32 << 20}, {&s.InputMax, 256 << 20}, {&s.ValuesMin, 64 << 20}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if s.RunsMax <= 0 {
		s.RunsMax = 12
	}
	if s.CutFrom == 0 {
		s.CutFrom = 4
	}
	s.Versions, s.Slack = max(s.Versions, 1), max(s.Slack, 1)
	s.AgeMs = max(s.AgeMs, s.NowMs)
	if s.DeletionAgeMs == 0 {
		s.DeletionAgeMs = 24 * 60 * 60 * 1000
	}
	return s
}
