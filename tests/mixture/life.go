package mixture

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// lifeOps is the number of operations of a life.
const lifeOps = 60

// An operation is one kind of step of a life.
type operation struct {
	name   string
	weight int // how often it is drawn, relative to the others
	// cutOneIn is n if the power goes inside one operation in n, and 0 for never. Where few
	// calls of the file system make a difference, it is small.
	cutOneIn int
	do       func(*run) error
}

// operations are all kinds of steps. The function init fills it, because burst leads back to
// other operations.
var operations []operation

func init() {
	operations = []operation{
		{"update", 30, 6, (*run).update},
		{"batch", 8, 6, (*run).batch},
		{"ingest", 8, 6, (*run).ingest},
		{"define keyspace", 8, 6, (*run).define},
		{"drop keyspace", 3, 2, (*run).drop},
		{"drop prefix", 3, 6, (*run).dropPrefix},
		{"compact", 6, 6, (*run).compact},
		{"collect", 4, 6, (*run).collect},
		{"discard", 3, 2, (*run).discard},
		{"flush", 4, 0, (*run).flush},
		{"time", 8, 0, (*run).tick},
		{"hold", 5, 0, (*run).hold},
		{"look", 6, 0, (*run).lookAgain},
		{"verify", 4, 0, (*run).verify},
		{"check", 2, 0, (*run).check},
		{"reopen", 3, 0, (*run).reopen},
		{"kill", 2, 0, (*run).kill},
		{"power cut", 3, 0, (*run).cut},
		{"backup", 5, 0, (*run).backup},
		{"checkpoint", 2, 0, (*run).checkpoint},
		{"deep compaction", 3, 0, (*run).deep},
		{"burst of failures", 4, 0, (*run).burst},
	}
}

// draw draws an operation. One time in five it is the same kind as before.
func draw(rng *rand.Rand, before *operation) *operation {
	if before != nil && rng.IntN(5) == 0 {
		return before
	}
	total := 0
	for _, o := range operations {
		total += o.weight
	}
	n := rng.IntN(total)
	for i := range operations {
		if n -= operations[i].weight; n < 0 {
			return &operations[i]
		}
	}
	panic("weights do not add up")
}

// RunLife plays the life of one seed. An error has the seed and the last operations.
func RunLife(seed uint64) (Work, error) {
	r := newRun(seed)
	err := testkit.CatchPanic(func() error { return r.live(seed) })
	if r.db != nil {
		r.release()
		if e := r.db.Close(); err == nil && e != nil {
			err = fmt.Errorf("close: %w", e)
		}
	}
	if err != nil {
		err = fmt.Errorf("seed %d: %w\noptions %+v\n%s", seed, err, r.opts, strings.Join(r.history, "\n"))
	}
	return r.work, err
}

// live plays all operations. Each has a generator of its own. Thus the timing of background
// jobs in one operation does not change what is drawn later.
func (r *run) live(seed uint64) error {
	if err := r.begin(); err != nil {
		return err
	}
	var o *operation
	for i := range uint64(lifeOps) {
		r.rng = rand.New(rand.NewPCG(seed, i))
		o = draw(r.rng, o)
		r.note("#%d %s", i, o.name)
		if err := r.play(o); err != nil {
			return fmt.Errorf("operation %d, %s: %w", i, o.name, err)
		}
	}
	for _, do := range []func() error{r.verify, r.deep, r.verify, r.reopen, r.deep} {
		if err := do(); err != nil {
			return fmt.Errorf("at the end: %w", err)
		}
	}
	return nil
}

// play plays one operation, with or without a power cut inside.
func (r *run) play(o *operation) error {
	r.work[o.name]++
	do := func() error { return o.do(r) }
	if o.cutOneIn > 0 && r.rng.IntN(o.cutOneIn) == 0 {
		return r.interrupt(do)
	}
	return do()
}

// historyMax is the number of notes that the error of a life shows.
const historyMax = 60

// note remembers a line for the error of the life.
func (r *run) note(format string, args ...any) {
	if len(r.history) == historyMax {
		r.history = append(r.history[:0], r.history[1:]...)
	}
	r.history = append(r.history, fmt.Sprintf(format, args...))
}
