package check

import (
	"errors"
	"fmt"
	"time"

	"github.com/stoatdb/stoat/internal/base"
)

// A Report says what was looked at and what was found.
type Report struct {
	// Tables and Values are how many tables and value files there are, Bytes
	// their size, Entries and Pointers how many versions of keys the tables
	// hold, and how many of their values lie in value files.
	Tables, Values    int
	Bytes             int64
	Entries, Pointers uint64
	// Jumps is how often the next pointer of a table leads to another value file
	// than the pointer before.
	Jumps uint64
	// LogRecords is how many transactions the log holds, if it was read.
	LogRecords int64
	// Problems are what is wrong, each an error with the file and, where there
	// is one, the offset.
	Problems []error
	// Warnings are what is strange but harmless, such as files that nothing
	// refers to.
	Warnings []string
	Took     time.Duration
}

// problemsMax bounds the report of one file: the rest of a damage says nothing
// new.
const problemsMax = 100

// Err returns all problems as one error, or nil.
func (r *Report) Err() error { return errors.Join(r.Problems...) }

// add notes a problem.
func (r *Report) add(err error) {
	if err != nil {
		r.Problems = append(r.Problems, err)
	}
}

// mismatch notes that what of a file is not what the manifest says.
func (r *Report) mismatch(file, what string, got, want any) {
	r.add(base.InFile(base.Corrupt(-1, what, got, fmt.Sprintf("%v, as the manifest says", want)), file))
}

// Progress says how far a check has come, in bytes of files.
type Progress struct {
	Done, Total int64
}
