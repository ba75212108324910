package compact

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/vfs"
)

// stopEvery is the number of units between two calls of Stop. An entry counts as one unit,
// and each valueUnit bytes of its value as one more.
const (
	stopEvery = 256
	valueUnit = 256
)

// Run merges the sources of a job into new tables.
func Run(job Job) (Result, error) {
	m := merge{
		job:       &job,
		retain:    NewRetain(job.Rules, job.Deletions),
		out:       output{job: &job, from: job.From, deletions: job.Deletions.Retain(job.Rules.Snapshots, job.Rules.Bottom)},
		untilStop: stopEvery,
		discard:   discarder{of: job.Discard, rules: &job.Rules},
	}
	defer m.out.abandon() // also after a panic
	if err := m.guarded(); err != nil {
		return Result{Files: m.out.result.Files}, fmt.Errorf("compact: %w", err)
	}
	return m.out.result, nil
}

// errEnded says that a function of the user ended the goroutine of a job.
var errEnded = errors.New("compact: a function ended the goroutine that called it")

// RunParts runs jobs concurrently. They make the parts of one run, in key order.
func RunParts(jobs []Job) (all Result, err error) {
	results, errs := make([]Result, len(jobs)), slices.Repeat([]error{errEnded}, len(jobs))
	var running sync.WaitGroup
	defer running.Wait() // the caller closes the sources, even if the first job ends its goroutine
	for i := 1; i < len(jobs); i++ {
		running.Go(func() { results[i], errs[i] = Run(jobs[i]) })
	}
	results[0], errs[0] = Run(jobs[0])
	running.Wait()
	for _, r := range results {
		all.Tables = append(all.Tables, r.Tables...)
		all.Files = append(all.Files, r.Files...)
		all.BytesWritten += r.BytesWritten
	}
	return all, errors.Join(errs...)
}

// A merge is a job in progress.
type merge struct {
	job    *Job
	all    iter.Visible
	entry  base.Entry // the current one, which the job may change
	retain Retain
	out    output
	// key is the key whose versions are being judged.
	key     []byte
	chain   chain // partial entries of key, of which the base is not known yet
	discard discarder
	// untilStop is the number of units until the next call of Stop.
	untilStop int
}

// guarded runs the job. If the caller has turned faults into panics, a fault in the mapping
// of a source becomes an error. The job must close its files, and Run must return them to
// its caller.
func (m *merge) guarded() (err error) {
	defer func() {
		if p := recover(); p != nil {
			if err = vfs.MappingFault(p); err == nil {
				panic(p)
			}
		}
	}()
	if err = m.run(); err != nil {
		return err
	}
	return m.out.end()
}

func (m *merge) run() error {
	inputs := make([]iter.Input, len(m.job.Sources))
	for i, s := range m.job.Sources {
		inputs[i].Source = s
	}
	m.all.Init(inputs, false, nil, nil, iter.Snapshot{At: base.SeqNumMax, AllVersions: true})
	begun := false
	for ok := m.all.Seek(m.job.From); ok; ok = m.all.Next() {
		m.entry = *m.all.Entry
		e := &m.entry
		if m.job.To != nil && bytes.Compare(e.Key, m.job.To) >= 0 {
			if err := m.releaseBefore(e.Key); err != nil {
				return err
			}
			break
		}
		if m.untilStop -= 1 + len(e.Value)/valueUnit; m.untilStop < 0 {
			if err := m.pause(); err != nil {
				return err
			}
		}
		if !bytes.Equal(e.Key, m.key) || !begun {
			begun = true
			if err := m.beginKey(e.Key); err != nil {
				return err
			}
		}
		if err := m.meet(e); err != nil {
			return err
		}
	}
	if err := m.endChain(nil); err != nil {
		return err
	}
	if err := m.releaseBefore(m.discard.limits.After); err != nil {
		return err
	}
	return m.all.Err()
}

// beginKey ends the key before, and begins with the versions of the next one.
func (m *merge) beginKey(key []byte) error {
	if err := m.endChain(nil); err != nil {
		return err
	}
	m.key = append(m.key[:0], key...)
	m.retain.Begin(m.key)
	held := m.discard.begin(m.key)
	m.out.timed, m.out.within = m.discard.limits.Timed, m.discard.within
	if held && m.job.Around && m.out.passes(m.key) {
		// A table that stays lies between two versions of the user's key.
		if err := m.release(); err != nil {
			return err
		}
		held = false
	}
	if held {
		return nil
	}
	return m.out.beginKey(m.key)
}

// pause lets other goroutines run, and asks whether the job goes on. Otherwise a reader or
// a commit that waits for a processor may wait for ten milliseconds. The scheduler lets a
// job go on for that long.
func (m *merge) pause() error {
	m.untilStop = stopEvery
	runtime.Gosched()
	if m.job.Stop == nil {
		return nil
	}
	return m.job.Stop()
}

// judge drops a whole entry or adds it to the output.
func (m *merge) judge(e *base.Entry) error {
	place := m.job.Place
	if m.screen(e) {
		place = m.job.PlaceNew
	}
	switch m.retain.Judge(e.Seq, &e.Meta) {
	case Drop:
		return nil
	case KeepTombstone:
		tombstone(e)
	case Keep:
		if e.Meta.Kind == base.KindDelete && mutant.On(mutant.FilterUncovers) && e.Meta.User == screened {
			return nil
		}
		if m.discard.judge(e) {
			return nil
		}
		if err := m.release(); err != nil {
			return err
		}
	}
	return m.add(e, place)
}

func tombstone(e *base.Entry) { e.Value, e.Meta = nil, base.Meta{Kind: base.KindDelete} }

// add adds an entry to the output. place, which may be nil, says where its value goes.
func (m *merge) add(e *base.Entry, place Placer) error {
	if e.Meta.Kind == base.KindDelete {
		e.Meta.ExpiresAt = 0 // a tombstone does not expire; Shape.dead relies on that
	}
	return m.out.put(e, place)
}

// release adds the deletion that the discarder holds to the output.
func (m *merge) release() error {
	if e, held := m.discard.release(); held {
		return m.out.add(e)
	}
	return nil
}

// releaseBefore releases the held deletion if next, the first key after the job, is of the
// same user's key.
func (m *merge) releaseBefore(next []byte) error {
	if m.discard.straddles(next) {
		return m.release()
	}
	return nil
}
