package compact

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/filter"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/vfs"
)

// A Job is a flush or a merge: what to read, what to keep, what to write.
type Job struct {
	// Sources are forward and at no position. Tables are best read with
	// table.IterOptions.Unmapped. Values must stay valid until the second Fill
	// after the one that showed them.
	Sources []iter.Source
	// From and To bound the keys that the job is about, [From, To); nil is no
	// bound.
	From, To []byte
	// Deletions are the range deletions of all that is merged.
	Deletions *rangedel.List
	Rules     Rules

	// Level, Run and CreatedMs are those of the outputs.
	Level     int
	Run       uint64
	CreatedMs uint64

	// An output ends when it has TableSize bytes, or comes to a split with at
	// least SplitMin. Splits are ascending. All versions of a key are in one
	// output.
	TableSize int64
	Splits    [][]byte
	SplitMin  int64

	// Filter gets the keys of all outputs, which have its filter in the end, if it
	// is not nil: those of one run of level 0.
	Filter *filter.Builder
	// NewFile makes the file of an output. Run closes it.
	NewFile func() (NewFile, error)
	// Writer says how the outputs are made. The salt is that of NewFile.
	Writer table.WriterOptions
	// Place says where the value of an entry goes, and reports true if that is
	// a value file: it then has made e one of base.KindPointer, with the
	// pointer as its value until the next call, and returns the part of the
	// file that the pointer keeps alive. It is asked for every entry with
	// a value, pointers included. nil leaves all values in the tables.
	Place func(e *base.Entry) (ref manifest.ValueRef, inFile bool, err error)
	// Cut is asked before each key but the first of an output whether the output
	// is to end there, if it is not nil.
	Cut func() bool
	// Stop is asked every few thousand entries and every megabyte or so; its
	// error ends the job. It may wait, to limit the rate. nil is never asked.
	Stop func() error
}

// A NewFile is an empty file for a table. The salt is random, and the
// table's alone.
type NewFile struct {
	Num  base.FileNum
	File vfs.File
	Salt uint64
}

// A Result is what a job made. The contents of the tables are durable, the
// names of the files are so after the caller has synced the directory.
type Result struct {
	Tables []*manifest.Table
	// Files are the numbers of all files made. After an error the caller
	// removes them.
	Files []base.FileNum
	// EntriesRead and BytesRead count what came from the sources: entries, and
	// the bytes of their keys and values. EntriesWritten of them were kept.
	// BytesWritten is the size of the tables.
	EntriesRead, EntriesWritten uint64
	BytesRead, BytesWritten     int64
}

// Apply fills in what the job has to know of the plan. What the plan counts on
// must hold for the rules of the job: their time and their oldest snapshot are
// not before those of the Shape that it was picked for. While one plan is
// carried out, no other is picked; flushes may go on.
func (p *Plan) Apply(job *Job, s Shape) {
	s = s.withDefaults()
	job.Rules.Bottom = p.Bottom
	job.Level, job.Run, job.CreatedMs = p.OutputLevel, p.Run, p.CreatedMs
	job.TableSize, job.Splits, job.SplitMin = p.tableSize(s), p.Splits, p.splitMin(s)
}

// tableSize returns the size at which outputs of p end, so that they are of
// one size: a small rest would be a table of its own for long.
func (p *Plan) tableSize(s Shape) int64 {
	size := p.InputBytes()
	tables := max(1, (size+s.TableSize-1)/s.TableSize)
	return min(s.TableSize, size/tables+size/64)
}

// splitMin returns how many bytes an output has at least that ends at a split.
func (p *Plan) splitMin(s Shape) int64 {
	if p.OutputLevel == 0 {
		return p.SplitMin
	}
	return s.TableSize / 8
}
