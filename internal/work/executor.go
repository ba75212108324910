package work

import "sync"

// An Executor decides how background jobs run. The zero value is that of
// production: workers are goroutines, and one job may use several.
//
// A test may inject another one, and then one thread of the test calls the steps
// of all workers. So one seed is one history. Nothing else in the engine knows
// of tests.
type Executor struct {
	// Manual starts no workers: the owner of the database calls their steps. A job
	// then runs on the goroutine of its caller alone.
	Manual bool
	// StepBytes is about how many bytes one collection copies at most; 0 leaves that
	// to the collector. A test with little garbage sets it to have files left over.
	StepBytes int64
	// Overlap lets a small group of commits begin beside the sync of another one, as large
	// groups do.
	Overlap bool
	// Reach, if it is set, is called at the points of each job. It returns when
	// the job may go on.
	Reach func(Point)
	// Woken, if it is set, is told of each wake-up of a worker. It must not block.
	Woken func(*Worker)
}

// A Point is a place in a job where state is about to change or has just changed. Others
// see this state, or would find it after a crash. The locks that are held there are named:
// the test must not run code that needs one of them meanwhile. No point lies where keys are
// read or written.
type Point uint8

const (
	// PointPicked: the job has chosen what to do, from a state that may grow old.
	// A compaction holds compacting, a collection collecting.
	PointPicked Point = iota + 1
	// PointCreate: the job is about to create a file. It has decided which versions
	// it may drop.
	PointCreate
	// PointInstall: the new files are complete, and nothing refers to them.
	PointInstall
	// PointEdited: the manifest has the edit and the view does not. The job holds
	// installing.
	PointEdited
	// PointReplaced: no new reader reaches what was replaced, and it is not on the
	// list of obsolete files yet.
	PointReplaced
	// PointDiscarded: it is on the list, and nothing has been deleted.
	PointDiscarded
	// PointApplied: a group of commits is in the memtable and in the log, and
	// neither synced nor visible.
	PointApplied
	// PointCopy: a checkpoint is about to take another file. It holds checkpointing.
	PointCopy
	// PointLoaded: a transaction has loaded the view and has not announced it.
	PointLoaded
	// PointStated: a reader has loaded a state of the manifest, and its slot does
	// not announce yet which files it holds.
	PointStated
)

// At reaches a point.
func (e *Executor) At(p Point) {
	if e.Reach != nil {
		e.Reach(p)
	}
}

// Go runs a job that its caller does not wait for. With a manual executor the caller
// runs it.
func (e *Executor) Go(job func()) {
	if e.Manual {
		job()
		return
	}
	go job()
}

// Width returns the number of parts of a job that could use at most that many.
func (e *Executor) Width(most int) int {
	if e.Manual {
		return 1
	}
	return most
}

// Parallel runs all functions and waits for them.
func (e *Executor) Parallel(fns ...func()) {
	if e.Manual || len(fns) == 1 {
		for _, fn := range fns {
			fn()
		}
		return
	}
	var all sync.WaitGroup
	for _, fn := range fns[1:] {
		all.Go(fn)
	}
	defer all.Wait() // also if the first function panics
	fns[0]()
}
