package stoat

// A driver takes the place of the goroutines behind a database. With one, no
// work is begun by the database itself: whoever opened it calls the steps
// (flushNext, tidy, gatherIdle, tidyValues, sweep), from as many or as few threads as he likes, and is
// asked at the points where others may come in between. So a single thread
// with a seed decides who does what when, and one seed is one history.
//
// Without a driver a point costs the look whether there is one. None lies where
// keys are read or written.
type driver interface {
	// at returns when the work that has come to p may go on.
	at(p point)
}

// A point is a place in a job where the state that others see, or would find
// after a crash, is about to change or just has. The locks that are held at it
// are named: who needs one of them must not be made to run meanwhile.
type point uint8

const (
	// pointPicked: what to do has been chosen, from a state that may grow old.
	// A compaction holds compacting until it ends, a collection collecting.
	pointPicked point = iota + 1
	// pointCreate: a file is about to be made. By then a job has decided which
	// versions may go.
	pointCreate
	// pointInstall: new files are complete, and nothing refers to them.
	pointInstall
	// pointEdited: the manifest has the edit and the view has not. It holds
	// installing.
	pointEdited
	// pointReplaced: no new reader comes to what was replaced, and it is not
	// counted as garbage yet.
	pointReplaced
	// pointDiscarded: it is garbage, and nothing has been given back.
	pointDiscarded
	// pointApplied: a group of commits is in the memtable and in the log, and
	// neither synced nor visible.
	pointApplied
	// pointCopy: a checkpoint is about to take another file. It holds
	// checkpointing.
	pointCopy
	// pointLoaded: a transaction has loaded the view, and nobody knows that it
	// is about to read it.
	pointLoaded
	// pointStated: a state of the manifest has been loaded, and its slot does not
	// tell yet which files it has. It holds what the job does that asked for it.
	pointStated
)

// at is a point.
func (d *DB) at(p point) {
	if d.driver != nil {
		d.driver.at(p)
	}
}
