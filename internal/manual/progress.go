package manual

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// ReportEvery is after how many bytes a long step reports progress.
const ReportEvery = 4 << 20

// report reports progress before a step.
func (j *job) report() {
	if j.o.Progress == nil {
		return
	}
	j.left = j.ahead()
	j.o.Progress(j.done, j.done+j.left)
}

// reportWithin returns what reports progress within a step, or nil.
func (j *job) reportWithin() func(moved int64) {
	if j.o.Progress == nil {
		return nil
	}
	done, told := j.done, j.done
	return func(moved int64) {
		if done += moved; done < told+ReportEvery {
			return
		}
		told = done
		j.o.Progress(done, max(done, j.done+j.left))
	}
}

// ahead estimates how many bytes there are still to go through.
func (j *job) ahead() int64 {
	s := j.Store.State()
	keys := j.keys()
	n := keys.Ahead(s.Version, j.shape())
	if j.inRange() {
		return n
	}
	tables, moves := j.gatherAhead(&s)
	n += tables
	// What is left in a file is copied, if something has left it.
	for _, f := range s.Version.Values {
		moved := min(moves[f.Num], f.Live)
		if (moved > 0 || f.Live < f.Bytes) && j.collects(f, s.FlushedSeq) {
			n += int64(f.Live - moved)
		}
	}
	return n
}

// gatherAhead estimates how many bytes it takes to gather all that is worth it, and
// how many of which value files that moves. What is not moved for lack of room before
// files are collected is copied by that.
func (j *job) gatherAhead(s *manifest.State) (bytes int64, moves map[base.FileNum]uint64) {
	if j.gatherMax > 0 && j.gathered >= j.gatherMax {
		return 0, nil
	}
	g, shape := j.Jobs.Gathering(true)
	bytes, moves = g.Ahead(s.Version, shape)
	left := int64(0)
	for _, moved := range moves {
		left += int64(moved)
	}
	room, later := j.Jobs.GatherRoom(s, uint64(left))
	if later == 0 {
		return 0, nil
	}
	bytes += left
	for left -= int64(room); left > 0; left -= int64(later) {
		bytes += left
	}
	return bytes, moves
}
