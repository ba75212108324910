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
	j.growth = joinGrowthManual
	plan, due := newManualPicker(v, s).pickJoin(0, j)
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
	return joinJumps*(t.Jumps+1) <= t.Pointers+joinJumps*uint64(t.Values.Len())
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
	files := p.smallFiles(j)
	for _, tables := range p.v.Levels[1:] {
		for i, t := range tables {
			if inOrder(t) {
				files.refer(t, i)
			}
		}
	}
	for _, f := range files {
		if f.short && f.referred == f.live {
			n++
		}
	}
	return n
}

// automaticJoining is the joining that no caller asked for.
var automaticJoining = Joining{growth: joinGrowth}

// pickJoin joins small files if there are more than most.
func (p *picker) pickJoin(most int, j Joining) (Plan, bool) {
	if p.countSmall(&j, max(most, 1)) <= max(most, 1) {
		return Plan{}, false
	}
	return p.join(&j)
}

// join looks for neighbouring tables of a level that alone refer to the most small files. It
// skips level 0, where nothing stays for long.
func (p *picker) join(j *Joining) (Plan, bool) {
	keys := keyRange{lo: j.Lo, hi: j.Hi, open: true}
	plan, files := Plan{Reason: ReasonFiles}, p.smallFiles(j)
	for level := last; level > 0; level-- {
		tables, join := p.joinIn(within(p.v.Levels[level], keys), files, j.growth)
		if len(join) > len(plan.Join) {
			plan.Inputs, plan.OutputLevel, plan.Join = [manifest.Levels][]*manifest.Table{}, level, join
			plan.Inputs[level] = tables
		}
	}
	if len(plan.Join) == 0 {
		return Plan{}, false
	}
	return plan.finish(p.v, p.s), true
}

// joinIn returns the neighbouring tables of a level that alone refer to the most files worth
// joining, and these files.
func (p *picker) joinIn(level []*manifest.Table, files smallFiles, growth uint64) (tables []*manifest.Table, join []base.FileNum) {
	w := windowOver(level, files)
	for len(w.firsts) > 0 {
		w.grow(p.s.InputMax, p.joinMax())
		if w.begins() && w.whole*joinTables >= uint64(w.size) {
			some, bytes := joinable(w.files(), growth, p.joinMax())
			if len(some) > 0 && bytes*joinTables >= uint64(w.size) {
				if len(some) > len(join) {
					tables, join = level[w.from:w.to:w.to], some
				}
				w.empty()
				continue
			}
		}
		w.shift()
	}
	return tables, join
}

// joinMax returns the approximate maximum number of bytes that one plan rewrites.
func (p *picker) joinMax() uint64 { return uint64(min(joinBytes, p.s.InputMax)) }

// joinable returns the files worth joining, in ascending order, and the bytes that this
// moves: at most about most. It prefers the smallest files.
func joinable(files []*smallFile, growth, most uint64) (join []base.FileNum, bytes uint64) {
	slices.SortFunc(files, func(a, b *smallFile) int {
		return cmp.Or(cmp.Compare(a.live, b.live), cmp.Compare(a.num, b.num))
	})
	n, sum := 0, uint64(0)
	for i, f := range files {
		if sum >= most {
			break
		}
		if sum += f.live; sum >= growth*f.live {
			n, bytes = i+1, sum
		}
	}
	for _, f := range files[:n] {
		join = append(join, f.num)
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
	if small <= joinDebtFiles {
		return 0
	}
	if _, due := p.join(&j); !due {
		return 0
	}
	return int64(small-joinDebtFiles) * joinDebtBytes
}
