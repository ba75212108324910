package compact

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/filter"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/vfs"
)

// A Job is a flush or a merge: its sources, rules and outputs.
type Job struct {
	// Sources are forward iterators without a position. Tables should be read with
	// table.IterOptions.Unmapped. Values must stay valid until the second Fill after
	// their own.
	Sources []iter.Source
	// From and To bound the keys of the job, [From, To); nil means no bound.
	From, To []byte
	// Deletions are the range tombstones of all inputs.
	Deletions *rangedel.List
	Rules     Rules

	// Level, Run and CreatedMs apply to the outputs.
	Level     int
	Run       uint64
	CreatedMs uint64

	// An output ends at TableSize bytes, or at a split if it has at least SplitMin
	// bytes. Splits are ascending. All versions of a key are in one output. Below level 0,
	// so are those of a user's key with timestamps, unless they are larger than TableSize.
	TableSize int64
	Splits    [][]byte
	SplitMin  int64
	// Around says that every output ends at a split, whatever its size. No range tombstone
	// reaches over one. The job has no bounds.
	Around bool

	// Filter collects the keys of all outputs, which are one run of level 0. In the
	// end they share its filter. It may be nil.
	Filter *filter.Builder
	// NewFile makes the file of an output. Run closes it.
	NewFile func() (NewFile, error)
	// Writer configures the outputs. Their salt is that of NewFile.
	Writer table.WriterOptions
	// Codec returns the codec for values of a keyspace. If it is nil, that of Writer
	// holds for all.
	Codec func(keyspace uint32) codec.ID
	// Place decides where the value of an entry goes. It is called for every entry
	// with a value, pointers included. If the value goes to a value file, Place turns
	// e into an entry of base.KindPointer. The pointer in e is valid until the next
	// call. ref is the part of the file that the pointer keeps alive. If Place is
	// nil, all values stay in the tables.
	Place Placer
	// PlaceNew is Place for values that the job itself made, by a fold or a filter. If
	// it is nil, they stay in the tables.
	PlaceNew Placer
	// Functions folds partial entries. nil joins them, and loses none.
	Functions *partial.Functions
	// Value returns the value that an entry of base.KindPointer points to, until the
	// next call. With an error the job folds nothing onto it. If it is nil, the job
	// folds onto no pointer.
	Value func(e *base.Entry) ([]byte, error)
	// Screen asks the compaction filter about the newest version of a key, which only
	// the present snapshot sees. nil keeps all.
	Screen func(e *base.Entry) (Decision, []byte)
	// Discard says what may be dropped of a keyspace. nil drops nothing.
	Discard func(number uint32) Discard
	// Cut reports whether the current output should end before the next key. It is
	// called before each key but the first of an output. It may be nil.
	Cut func() bool
	// Stop is called about every 1024 entries and every 256 KiB of values. Its
	// error ends the job. It may wait, to limit the rate. It may be nil.
	Stop func() error
}

// A Placer puts the value of an entry into a value file, or leaves it in the table.
type Placer func(e *base.Entry) (ref manifest.ValueRef, inFile bool, err error)

// A NewFile is an empty file for a table, with a random salt that no other table has.
type NewFile struct {
	Num  base.FileNum
	File vfs.File
	Salt uint64
}

// A Result is the output of a job. The contents of the tables are durable. The caller
// syncs the directory to make the names durable.
type Result struct {
	Tables []*manifest.Table
	// Files are the numbers of all files made. After an error the caller removes
	// them.
	Files []base.FileNum
	// BytesWritten is the size of the tables.
	BytesWritten int64
}

// Apply copies the plan's settings into the job. The plan relies on the job's rules:
// their time and their oldest snapshot must not be before those of the Shape used to
// pick it. The caller must not pick another plan until this one is done. Flushes may
// continue.
func (p *Plan) Apply(job *Job, s Shape) {
	s = s.withDefaults()
	job.Rules.Bottom = p.Bottom
	job.Level, job.Run, job.CreatedMs = p.OutputLevel, p.Run, p.CreatedMs
	job.TableSize, job.Splits, job.SplitMin, job.Around = p.tableSize(s), p.Splits, p.splitMin(s), p.around
}

// tableSize returns the size at which outputs of p end. It makes them about equal in
// size: a small last table would stay small for long.
func (p *Plan) tableSize(s Shape) int64 {
	size := p.InputBytes()
	tables := max(1, (size+s.TableSize-1)/s.TableSize)
	return min(s.TableSize, size/tables+size/64)
}

// splitMin returns the minimum size in bytes of an output that ends at a split.
func (p *Plan) splitMin(s Shape) int64 {
	if p.OutputLevel == 0 {
		return p.SplitMin
	}
	if p.around {
		return 0
	}
	return max(p.SplitMin, s.TableSize/8)
}
