package jobs

import (
	"math"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/work"
)

// IngestJob returns the job that writes the tables of an ingest, without its Place. The
// tables are shaped for the level that they are probably moved to.
func (j *Jobs) IngestJob() compact.Job {
	job := j.newJob()
	job.Level, job.CreatedMs, job.Codec = manifest.Levels-1, j.store.Now(), j.codecs(manifest.Levels-1)
	cuts := compact.CutsOfFlush(j.store.Version(), j.Shape(work.Busy, j.store.Horizon()), math.MaxInt64)
	job.Splits, job.TableSize, job.SplitMin = cuts.Splits, cuts.TableSize, cuts.SplitMin
	return job
}

// SortJob returns the job that writes sorted temporary tables of a bulk load.
func (j *Jobs) SortJob() compact.Job {
	job := j.newJob()
	job.Level, job.Codec, job.TableSize = manifest.Levels-1, j.codecs(0), TableSize(j.o.MemtableSize)
	return job
}

// InstallIngest makes the files of an ingest live, with version seq, as the newest run of
// level 0. The caller holds build, and every older version is in tables.
func (j *Jobs) InstallIngest(tables []*manifest.Table, values []*manifest.ValueFile, seq base.SeqNum) error {
	version := seq
	if mutant.On(mutant.IngestOldVersion) {
		version--
	}
	run := j.store.Version().NextRun()
	for _, t := range tables {
		t.Level, t.Run = 0, run
		t.SeqShift, t.SmallestSeq, t.LargestSeq = version, version, version
	}
	return j.store.InstallNamed(manifest.Edit{
		AddTables: tables, AddValues: values, RequiredFeatures: []string{manifest.FeatureIngest},
		FlushedSeq: manifest.Some(seq), LastSeq: manifest.Some(seq),
	})
}

// Ingested wakes the jobs that an ingest may have made due.
func (j *Jobs) Ingested() {
	j.o.Compact()
	j.o.Collect()
}
