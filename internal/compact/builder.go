package compact

import (
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/work"
)

// A Builder writes the tables of a job from entries that its caller adds. It uses the
// outputs of the job and not its sources or rules. After an error, the caller abandons
// the Builder.
type Builder struct {
	out   output
	job   Job
	space uint32 // the keyspace of the last entry
}

// NewBuilder returns a Builder without files. It finishes each table beside the next one.
func NewBuilder(job Job, exec *work.Executor) *Builder {
	b := &Builder{job: job}
	b.out.job, b.out.behind = &b.job, work.NewBehind(exec)
	return b
}

// Add adds the only version of a key with a value. The keys ascend. e changes if its
// value goes to a value file.
func (b *Builder) Add(e *base.Entry) error {
	if err := b.out.beginKey(e.Key); err != nil {
		return err
	}
	if b.out.space != b.space { // a compaction asks once for each key
		b.space = b.out.space
		b.out.timed = b.job.Discard != nil && b.job.Discard(b.space).Timed
	}
	return b.out.put(e, b.job.Place)
}

// Finish finishes the last table.
func (b *Builder) Finish() (Result, error) {
	err := b.out.end()
	if err == nil {
		err = b.out.behind.Wait()
	}
	if err != nil {
		return b.out.result, fmt.Errorf("build tables: %w", err)
	}
	return b.out.result, nil
}

// Abandon closes the file that is being written, and returns the files that the caller
// removes.
func (b *Builder) Abandon() Result {
	_ = b.out.behind.Wait() // the files are removed
	b.out.abandon()
	return b.out.result
}
