package compact

import (
	"cmp"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// Commits with large values and flushes of little leave small value files. Each
// costs readers a mapping and every change of the version a look, for as long as
// its values live. Where there are many, a merge of the tables that refer to
// them also writes their values anew, into one file. See decision 0018.
const (
	// joinSize is the size in bytes from which on a value file is not small.
	joinSize = 8 << 20
	// joinMean is the mean length of values from which on a file is joined wherever
	// its values lie. Where shorter ones lie mixed in many files they are gathered,
	// which makes large files as well: to join those first would take away the reason
	// to gather and leave them out of order. So files of shorter values are joined
	// where all tables that refer to them are in order: but for one to each file, no
	// more than one in joinJumps of the pointers leads to another file than the one
	// before.
	joinMean  = 4 << 10
	joinJumps = 8
	// joinFiles is how many small ones there may be.
	joinFiles = 256
	// joinBytes bounds about what one plan writes anew: a file of usual size.
	joinBytes = 128 << 20
	// joinGrowth is how many times as large as the largest of them a file gets
	// that files are joined to. So each value is written anew seldom: from a
	// megabyte to joinSize, twice at most. joinGrowthAsked is the same when
	// somebody asks.
	joinGrowth      = 8
	joinGrowthAsked = 4
	// joinTables is how many bytes of tables a plan may rewrite for each byte
	// of values that it joins.
	joinTables = 2
	// joinLate is how many small files there are when writers are slowed down
	// for each more, as if it were joinOwed bytes to be written.
	joinLate = 4096
	joinOwed = 256 << 10
)

// A Joining says which value files are to be joined that need not be.
type Joining struct {
	// Lo, inclusive, and Hi, exclusive, bound the keys of the tables that are
	// rewritten; nil is no bound.
	Lo, Hi []byte
	// Next bounds the numbers in the names of the files: those from it on have
	// been made lately and stay, so that there is an end while others write. 0
	// is no bound.
	Next base.FileNum

	growth uint64 // see joinGrowth
}

// PickJoining returns the next step of joining what is worth it, however few
// files there are. It is asked again after each step until it returns false.
// Damaged tables are no exception, as for PickRange.
func PickJoining(v *manifest.Version, s Shape, j Joining) (Plan, bool) {
	j.growth, s.Damaged = joinGrowthAsked, nil
	plan, due := newPicker(v, s).pickJoin(0, j)
	plan.Reason = ReasonManual
	return plan, due
}

// small reports whether a file is worth joining with others, as far as can be told
// from itself, and can be read. What nothing refers to goes without being read.
func (p *picker) small(j *Joining, f manifest.LiveValues) bool {
	return f.Bytes < joinSize && f.Live > 0 && (j.Next == 0 || f.File < j.Next) && p.s.BadValues[f.File] == nil
}

// short reports whether the values of f are short, so that their order matters.
func short(f manifest.LiveValues) bool { return f.Bytes < joinMean*f.Values }

// inOrder reports whether the values of t lie in about the order of their keys.
func inOrder(t *manifest.Table) bool {
	return joinJumps*(t.Jumps+1) <= t.Pointers+joinJumps*uint64(len(t.Values))
}

// countSmall returns how many small files there are, without those whose short
// values lie mixed. If it is no more than most, it may be too much.
func (p *picker) countSmall(j *Joining, most int) int {
	long, all := 0, 0
	for _, f := range p.v.Values {
		if p.small(j, f) {
			all++
			if !short(f) {
				long++
			}
		}
	}
	if all <= most || all == long {
		return all
	}
	return long + p.countShort(j)
}

// countShort returns how many small files of short values there are to which only
// tables in order refer, below level 0. The many files to which a table refers that is
// not in order are not gone through.
func (p *picker) countShort(j *Joining) (n int) {
	referred := map[base.FileNum]uint64{}
	for _, tables := range p.v.Levels[1:] {
		for _, t := range tables {
			if !inOrder(t) {
				continue
			}
			for _, ref := range t.Values {
				referred[ref.File] += ref.Bytes
			}
		}
	}
	for num, bytes := range referred {
		if f, ok := p.v.Value(num); ok && p.small(j, f) && short(f) && f.Live == bytes {
			n++
		}
	}
	return n
}

// unasked is what is joined without anybody asking.
var unasked = Joining{growth: joinGrowth}

// pickJoin joins small files, if there are more than most of them. It looks for
// neighbouring tables of a level that alone refer to the most of them; in level
// 0 nothing stays for long.
func (p *picker) pickJoin(most int, j Joining) (Plan, bool) {
	if p.countSmall(&j, max(most, 1)) <= max(most, 1) {
		return Plan{}, false
	}
	keys := keyRange{lo: j.Lo, hi: j.Hi, open: true}
	plan := Plan{Reason: ReasonFiles}
	for level := last; level > 0; level-- {
		tables := within(p.v.Levels[level], keys)
		for n := 0; len(tables) > 0; tables = tables[n:] {
			var whole []manifest.LiveValues
			n, whole = p.referring(tables, &j)
			join, bytes := joinable(whole, j.growth, p.joinMax())
			if len(join) == 0 || bytes*joinTables < uint64(bytesOf(tables[:n])) {
				n = 1
				continue
			}
			if len(join) > len(plan.Join) {
				plan.Inputs, plan.OutputLevel, plan.Join = [manifest.Levels][]*manifest.Table{}, level, join
				plan.Inputs[level] = tables[:n:n]
			}
		}
	}
	if len(plan.Join) == 0 {
		return Plan{}, false
	}
	return plan.finish(p.v, p.s), true
}

// joinMax is about how many bytes one plan writes anew.
func (p *picker) joinMax() uint64 { return uint64(min(joinBytes, p.s.InputMax)) }

// referring returns how many tables, from the first on, each refer to some small
// file that may be joined, and to which of those they refer alone. There are no more
// than make a plan.
func (p *picker) referring(tables []*manifest.Table, j *Joining) (n int, whole []manifest.LiveValues) {
	refer := map[base.FileNum]uint64{}
	size, bytes := int64(0), uint64(0)
	for ; n < len(tables) && bytes < p.joinMax(); n++ {
		if size += tables[n].Size; n > 0 && size > p.s.InputMax || p.damaged(tables[n]) {
			break
		}
		some := false
		for _, ref := range tables[n].Values {
			f, ok := p.v.Value(ref.File)
			if !ok || !p.small(j, f) || short(f) && !inOrder(tables[n]) {
				continue
			}
			some = true
			if refer[f.Num] += ref.Bytes; refer[f.Num] == f.Live {
				whole = append(whole, f)
				bytes += f.Live
			}
		}
		if !some {
			break
		}
	}
	return n, whole
}

// joinable returns those of the files that are worth joining, the small ones
// first, and how many bytes that moves: about most of them.
func joinable(files []manifest.LiveValues, growth, most uint64) (join []base.FileNum, bytes uint64) {
	slices.SortFunc(files, func(a, b manifest.LiveValues) int {
		return cmp.Or(cmp.Compare(a.Live, b.Live), cmp.Compare(a.Num, b.Num))
	})
	n, sum := 0, uint64(0)
	for i, f := range files {
		if sum >= most {
			break
		}
		if sum += f.Live; sum >= growth*f.Live {
			n, bytes = i+1, sum
		}
	}
	for _, f := range files[:n] {
		join = append(join, f.Num)
	}
	slices.Sort(join)
	return join, bytes
}

// joinDebt is what writers are slowed down for because there are very many small
// files. Those that cannot be joined are nobody's debt.
func (p *picker) joinDebt() int64 {
	if len(p.v.Values) <= joinLate {
		return 0
	}
	j := unasked
	small := p.countSmall(&j, joinLate)
	if _, due := p.pickJoin(joinLate, j); !due {
		return 0
	}
	return int64(small-joinLate) * joinOwed
}
