package stoat

import (
	"context"
	"fmt"
	"time"

	"github.com/stoatdb/stoat/internal/check"
	"github.com/stoatdb/stoat/internal/work"
)

// CheckReport is the result of DB.Check.
type CheckReport struct {
	// Tables and Values count the tables and the value files. Bytes is their total
	// size.
	Tables, Values int
	Bytes          int64
	// Entries counts the versions of keys in tables. Pointers counts the
	// versions whose value lies in a value file.
	Entries, Pointers uint64
	// Jumps counts the pointers whose value file differs from the file of the
	// previous pointer in the table.
	Jumps uint64
	// LogRecords counts the transactions in the log.
	LogRecords int64
	// Problems has an error for each difference from what was written. Each error
	// names the file and, if known, the offset.
	Problems []error
	// Warnings are oddities that do no harm, such as unreferenced files.
	Warnings []string
	// Took is the duration of the check.
	Took time.Duration
}

// Err returns all problems as one error, or nil if there is none.
func (r *CheckReport) Err() error { return (*check.Report)(r).Err() }

// CheckProgress is the progress of a call of DB.Check.
type CheckProgress struct {
	// Done is how many bytes of tables and value files the call has read. Total is
	// the size of all of them.
	Done, Total int64
}

// CheckOptions are the options of DB.Check.
type CheckOptions struct {
	// Progress, if it is set, is called after each file, by the goroutine that
	// called Check. It must not call DB.Close, which would wait for Check.
	Progress func(CheckProgress)
}

// Check reads every table and value file, and verifies
//
//   - every checksum, the order of keys and timestamps, and the search structures;
//   - that counts and bounds agree with the manifest;
//   - that the levels are in the order of time;
//   - that every pointer leads to its value;
//   - that the manifest's counts of garbage are exact.
//
// Check also reads the manifest again, which must agree with the state in memory,
// and the log. It reads the part of both that is known to be on the device. In a
// database opened with Options.ReadOnly, Check also decodes the transactions in the log
// and looks for unreferenced files. In a follower it does not.
//
// The report lists all problems. The returned error joins them; each names its file
// and is ErrCorrupt. If Check cannot finish, it returns the error of ctx or of the device.
//
// Transactions may go on meanwhile. Check verifies the state at its beginning:
// files that other jobs replace stay until Check ends. Unlike a transaction, Check
// keeps no memory and no overwritten versions. It reads through its own handles,
// and leaves the cache of the database alone. A follower keeps all files open until Check
// ends.
func (d *DB) Check(ctx context.Context, o CheckOptions) (*CheckReport, error) {
	ctx, end, err := d.engine.Group.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	state, files, release, err := d.engine.FilesToCheck(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	options := check.Options{State: state, OpenTable: files.Open, OpenValues: files.OpenValues,
		Stop: func() error { return work.Interrupted(ctx) }}
	if o.Progress != nil {
		options.Progress = func(p check.Progress) { o.Progress(CheckProgress(p)) }
	}
	report, err := check.Run(options)
	if err == nil {
		records := check.Records{State: d.engine.Store.State(), Manifest: d.engine.Manifest, VerifyLog: d.engine.Commits.VerifyLog,
			Log: d.engine.Commits.LogOptions(), Orphans: d.engine.Store.Orphans, Stop: options.Stop}
		if f := d.engine.Follower; f != nil {
			records.VerifyLog = func(stop func() error) (int64, error) { return f.VerifyLog(ctx, stop) }
		} else if d.opts.ReadOnly {
			records.VerifyLog = nil
		}
		err = report.CheckRecords(&records)
	}
	if err != nil {
		return (*CheckReport)(report), fmt.Errorf("check: %w", work.Ended(ctx, err))
	}
	return (*CheckReport)(report), report.Err()
}
