package compact

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/vfs"
)

// stopEvery is the number of units between two calls of Stop. An entry counts as one unit,
// and each valueUnit bytes of its value as one more.
const (
	stopEvery = 1024
	valueUnit = 256
)

// Run merges the sources of a job into new tables.
func Run(job Job) (Result, error) {
	m := merge{
		job:       &job,
		retain:    NewRetain(job.Rules, job.Deletions),
		out:       output{job: &job, from: job.From, deletions: job.Deletions.Retain(job.Rules.Snapshots, job.Rules.Bottom)},
		untilStop: stopEvery,
	}
	if err := m.guarded(); err != nil {
		m.out.abandon()
		return Result{Files: m.out.result.Files}, fmt.Errorf("compact: %w", err)
	}
	return m.out.result, nil
}

// RunParts runs jobs concurrently. They make the parts of one run, in key order.
func RunParts(jobs []Job) (all Result, err error) {
	results, errs := make([]Result, len(jobs)), make([]error, len(jobs))
	var running sync.WaitGroup
	for i := 1; i < len(jobs); i++ {
		running.Go(func() { results[i], errs[i] = Run(jobs[i]) })
	}
	results[0], errs[0] = Run(jobs[0])
	running.Wait()
	for _, r := range results {
		all.Tables = append(all.Tables, r.Tables...)
		all.Files = append(all.Files, r.Files...)
		all.EntriesRead += r.EntriesRead
		all.EntriesWritten += r.EntriesWritten
		all.BytesRead += r.BytesRead
		all.BytesWritten += r.BytesWritten
	}
	return all, errors.Join(errs...)
}

// A merge is a job in progress.
type merge struct {
	job    *Job
	all    iter.Visible
	retain Retain
	out    output
	// key is the key whose versions are being judged.
	key []byte
	// untilStop is the number of units until the next call of Stop.
	untilStop int
}

// guarded runs the job. If the caller has turned faults into panics, a fault in the mapping
// of a source becomes an error: the job must close its files and the caller must know them.
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
	read, size := uint64(0), int64(0)
	for ok := m.all.Seek(m.job.From); ok; ok = m.all.Next() {
		e := &m.all.Entry
		if m.job.To != nil && bytes.Compare(e.Key, m.job.To) >= 0 {
			break
		}
		read++
		size += int64(len(e.Key)) + int64(len(e.Value))
		if m.untilStop -= 1 + len(e.Value)/valueUnit; m.untilStop < 0 {
			if err := m.pause(); err != nil {
				return err
			}
		}
		if !bytes.Equal(e.Key, m.key) || read == 1 {
			m.key = append(m.key[:0], e.Key...)
			m.retain.Begin(m.key)
			if err := m.out.beginKey(m.key); err != nil {
				return err
			}
		}
		if err := m.judge(e); err != nil {
			return err
		}
	}
	m.out.result.EntriesRead, m.out.result.BytesRead = read, size
	return m.all.Err()
}

func (m *merge) pause() error {
	m.untilStop = stopEvery
	if m.job.Stop == nil {
		return nil
	}
	return m.job.Stop()
}

// judge drops an entry or adds it to the output.
func (m *merge) judge(e *base.Entry) error {
	switch m.retain.Judge(e.Seq, &e.Meta) {
	case Drop:
		return nil
	case KeepTombstone:
		e.Value, e.Meta = nil, base.Meta{Kind: base.KindDelete}
	case Keep:
		// A tombstone does not expire. Shape.dead relies on that.
		if e.Meta.Kind == base.KindDelete {
			e.Meta.ExpiresAt = 0
		}
	}
	if !e.Meta.Kind.HasValue() || m.job.Place == nil {
		return m.out.add(e)
	}
	ref, inFile, err := m.job.Place(e)
	if err != nil {
		return err
	}
	invariant.Check(inFile == (e.Meta.Kind == base.KindPointer),
		"entry of kind %s placed in a value file: %t", e.Meta.Kind, inFile)
	if inFile {
		return m.out.addPointer(e, ref)
	}
	return m.out.add(e)
}

// describe returns the metadata of a table for the manifest.
func (o *output) describe(p *table.Properties) *manifest.Table {
	t := &manifest.Table{
		Num: o.file.Num, Size: p.Size, Salt: p.Salt, Level: o.job.Level, Run: o.job.Run,
		// The bounds of range tombstones are in the memory of the inputs.
		Smallest: bytes.Clone(p.Smallest), Largest: base.CloneBound(p.Largest), LargestExclusive: p.LargestExclusive,
		SmallestSeq: p.SmallestSeq, LargestSeq: p.LargestSeq,
		Keys: p.Keys, Entries: p.Entries, Deletions: p.Deletions, RangeDeletions: p.RangeDeletions,
		Expiring: p.Expiring, Pointers: p.Pointers,
		OldestExpiry: p.OldestExpiry, NewestExpiry: p.NewestExpiry,
		KeyBytes: p.KeyBytes, ValueBytes: p.ValueBytes, CreatedMs: o.job.CreatedMs,
	}
	for _, ref := range p.ValueFiles {
		t.Values = append(t.Values, manifest.ValueRef{File: base.FileNum(ref.File), Bytes: ref.Bytes})
	}
	t.Jumps = o.jumps
	if o.job.Filter != nil {
		t.Filter = o.job.Filter.Filter()
	}
	return t
}
