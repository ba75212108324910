package work

// A Behind runs jobs beside its caller, one at a time and in order. One goroutine uses
// it. A nil Behind runs each job at once.
type Behind struct {
	exec  *Executor
	ended chan error // of the job under way; nil if there is none
}

// NewBehind returns a Behind without a job.
func NewBehind(exec *Executor) *Behind { return &Behind{exec: exec} }

// Run waits for the last job, and starts another one. After an error of the last job, it
// returns that error and starts none.
func (b *Behind) Run(job func() error) error {
	if b == nil {
		return job()
	}
	if err := b.Wait(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	b.ended = ended
	b.exec.Go(func() { ended <- job() })
	return nil
}

// Wait waits for the last job, and returns its error, the first time only.
func (b *Behind) Wait() error {
	if b == nil || b.ended == nil {
		return nil
	}
	err := <-b.ended
	b.ended = nil
	return err
}
