package check

import (
	"errors"
	"fmt"
	"time"

	"github.com/stoatdb/stoat/internal/base"
)

// A Report holds the results of a check.
type Report struct {
	// Tables and Values count the tables and value files; Bytes is their total
	// size. Entries counts the versions of keys in tables, and Pointers those
	// with a value in a value file.
	Tables, Values    int
	Bytes             int64
	Entries, Pointers uint64
	// Jumps counts the pointers whose value file differs from that of the
	// previous pointer in the table.
	Jumps uint64
	// LogRecords counts the transactions in the log, if the log was read.
	LogRecords int64
	// Problems are errors with the file and, if known, the offset.
	Problems []error
	// Warnings are oddities that do no harm, such as unreferenced files.
	Warnings []string
	Took     time.Duration
}

// problemsMax bounds the problems reported for one file: more of the same damage
// tells nothing new.
const problemsMax = 100

// Err returns all problems as one error, or nil.
func (r *Report) Err() error { return errors.Join(r.Problems...) }

// add adds a problem if err is not nil.
func (r *Report) add(err error) {
	if err != nil {
		r.Problems = append(r.Problems, err)
	}
}

// note adds err to the report if err says that a file is damaged. It returns any other
// error.
func (r *Report) note(err error) error {
	if errors.Is(err, base.ErrCorrupt) {
		r.add(err)
		return nil
	}
	return err
}

// mismatch reports that a property of a file differs from the manifest.
func (r *Report) mismatch(file, what string, got, want any) {
	r.add(base.InFile(base.Corrupt(-1, what, got, fmt.Sprintf("%v, as the manifest says", want)), file))
}

// Progress is the progress of a check, in bytes of files.
type Progress struct {
	Done, Total int64
}
