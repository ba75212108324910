package compact

import (
	"cmp"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// Commits with large values and small flushes leave small value files. While its values
// live, each file costs readers a mapping and makes every change of the version slower.
// If there are many, a merge of the tables that refer to them also rewrites their values
// into one file. See decision 0018.
const (
	// joinSize is the size in bytes below which a value file is small.
	joinSize = 8 << 20
	// joinMean is the mean length in bytes from which values are long. Files of long values
	// are always joined. Shorter values that lie mixed in many files are gathered instead,
	// which also makes large files. Joining them first would remove the reason to gather
	// and leave them out of order. So files of short values are joined only if all tables
	// that refer to them are in order. A table is in order if at most one in joinJumps of
	// its pointers leads to another file than the pointer before. One such pointer per file
	// does not count.
	joinMean  = 4 << 10
	joinJumps = 8
	// joinFiles is the number of small files that is allowed.
	joinFiles = 256
	// joinBytes is the approximate maximum number of bytes of values that one plan
	// rewrites: a file of usual size.
	joinBytes = 128 << 20
	// joinGrowth is the minimum ratio of the size of the joined file to its largest
	// input. It limits how often a value is rewritten: at most twice between 1 MiB
	// and joinSize. joinGrowthManual is the ratio for a manual compaction.
	joinGrowth       = 8
	joinGrowthManual = 4
	// joinTables is the maximum number of bytes of tables that a plan rewrites per byte
	// of joined values.
	joinTables = 2
	// joinDebtFiles is the number of small files from which backpressure begins. Each
	// further file counts as joinDebtBytes of debt.
	joinDebtFiles = 4096
	joinDebtBytes = 256 << 10
)

// A Joining limits which value files a manual compaction joins.
type Joining struct {
	// Lo, inclusive, and Hi, exclusive, bound the keys of the rewritten tables; nil
	// means no bound.
	Lo, Hi []byte
	// Next bounds the numbers in file names. Files from Next on are new and stay, so
	// that the joining ends while other commits write. 0 means no bound.
	Next base.FileNum

	growth uint64 // see joinGrowth
}

// PickJoining returns the next step of joining everything worth it, however few files
// there are. The caller repeats it after each step until it returns false. Damaged
// tables are not excluded, as in PickRange.
func PickJoining(v *manifest.Version, s Shape, j Joining) (Plan, bool) {
	j.growth, s.Damaged = joinGrowthManual, nil
	plan, due := newPicker(v, s).pickJoin(0, j)
	plan.Reason = ReasonManual
	return plan, due
}

// small reports whether f is readable, live and, judged by itself, worth joining. A file
// without references is dropped unread.
func (p *picker) small(j *Joining, f manifest.LiveValues) bool {
	return f.Bytes < joinSize && f.Live > 0 && (j.Next == 0 || f.File < j.Next) && p.s.BadValues[f.File] == nil
}

// short reports whether the values of f are short, so that their order matters.
func short(f manifest.LiveValues) bool { return f.Bytes < joinMean*f.Values }

// inOrder reports whether the values of t are approximately in key order.
func inOrder(t *manifest.Table) bool {
	return joinJumps*(t.Jumps+1) <= t.Pointers+joinJumps*uint64(len(t.Values))
}

// countSmall returns the number of small files, without those of short values that lie
// mixed. If the result is at most most, it may be too high.
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

// countShort returns the number of small files of short values that only ordered tables
// below level 0 refer to. It skips tables that are not in order, as they may refer to
// many files.
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

// automaticJoining is the joining that no caller asked for.
var automaticJoining = Joining{growth: joinGrowth}

// pickJoin joins small files if there are more than most. It looks for neighbouring
// tables of a level that alone refer to the most of them. It skips level 0, where nothing
// stays for long.
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

// joinMax returns the approximate maximum number of bytes that one plan rewrites.
func (p *picker) joinMax() uint64 { return uint64(min(joinBytes, p.s.InputMax)) }

// referring returns how many tables, from the first on, each refer to a small file that
// may be joined. whole holds the files that they alone refer to. It stops at the size of
// one plan.
func (p *picker) referring(tables []*manifest.Table, j *Joining) (n int, whole []manifest.LiveValues) {
	refer := map[base.FileNum]uint64{}
	size, bytes := int64(0), uint64(0)
	for ; n < len(tables) && bytes < p.joinMax(); n++ {
		if size += tables[n].Size; n > 0 && size > p.s.InputMax {
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

// joinable returns the files worth joining, in ascending order, and the bytes that this
// moves: at most about most. It prefers the smallest files.
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

// joinDebt returns the debt for too many small files. Files that cannot be joined do not
// count.
func (p *picker) joinDebt() int64 {
	if len(p.v.Values) <= joinDebtFiles {
		return 0
	}
	j := automaticJoining
	small := p.countSmall(&j, joinDebtFiles)
	if _, due := p.pickJoin(joinDebtFiles, j); !due {
		return 0
	}
	return int64(small-joinDebtFiles) * joinDebtBytes
}
