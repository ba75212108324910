package checkpoint

import (
	"math/rand/v2"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// flush writes the memtables of the source as a run of level 0 into the copy, and returns
// the state with it. Values stay where they are: large ones are in value files since their
// commits.
func (c *checkpoint) flush(s manifest.State) (manifest.State, error) {
	var edit manifest.Edit
	if len(c.source.Memtables) > 0 && !mutant.On(mutant.CheckpointTablesOnly) {
		job := c.flushJob(&s)
		for _, t := range c.source.Memtables {
			it := new(memtable.Iter)
			it.Init(t, false)
			defer it.Close()
			job.Sources = append(job.Sources, it)
		}
		result, err := compact.Run(job)
		if err != nil {
			return s, err
		}
		c.files += len(result.Tables)
		c.bytes += result.BytesWritten
		edit.AddTables = result.Tables
	}
	edit.NextFile, edit.FlushedSeq = manifest.Some(s.NextFile), manifest.Some(c.source.UpTo)
	return s.Apply(edit)
}

// flushJob returns the job that writes the memtables, without sources. It takes numbers for
// its tables from s. It neither expires nor folds nor discards anything: the copy may have
// other merge functions.
func (c *checkpoint) flushJob(s *manifest.State) compact.Job {
	snapshots := []base.SeqNum{c.source.UpTo}
	var data int64
	for _, t := range c.source.Memtables {
		data += t.DataBytes()
	}
	cuts := compact.CutsOfFlush(s.Version, compact.Shape{}, data)
	of := c.o.Settings
	return compact.Job{
		Deletions: memtable.RetainDeletions(c.source.Memtables, snapshots),
		Rules: compact.Rules{Snapshots: snapshots, Versions: 1,
			VersionsOf: func(n uint32) int { return of(n).NumVersions }},
		// It only tells which entries have timestamps, for the discard points of the tables.
		Discard: func(n uint32) compact.Discard {
			return compact.Discard{Timed: s.Timed(n)}
		},
		Place: place.PointerRef,
		Run:   s.Version.NextRun(), CreatedMs: c.o.Store.Now(),
		Splits: cuts.Splits, TableSize: cuts.TableSize, SplitMin: cuts.SplitMin,
		Writer: table.WriterOptions{HashSeed: s.HashSeed},
		NewFile: func() (compact.NewFile, error) {
			n := base.FileNum(s.NextFile)
			s.NextFile++
			f, err := c.fs.Create(c.fs.Join(c.temp, base.TableName(n)), vfs.CatTable)
			return compact.NewFile{Num: n, File: f, Salt: rand.Uint64()}, err
		},
		Stop: func() error { return work.Interrupted(c.ctx) },
	}
}
