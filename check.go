package stoat

import (
	"context"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/check"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/txn"
	"github.com/stoatdb/stoat/internal/work"
)

type (
	// CheckReport says what DB.Check looked at and what it found. Its fields are
	//
	//	Tables, Values    int           // tables and value files,
	//	Bytes             int64         // and their size
	//	Entries, Pointers uint64        // versions of keys, and how many values lie apart
	//	Jumps             uint64        // from one value file to another along the tables
	//	LogRecords        int64         // transactions in the log
	//	Problems          []error       // each with its file and, if there is one, offset
	//	Warnings          []string      // what is strange but harmless
	//	Took              time.Duration
	//
	// and its method Err returns the problems as one error.
	CheckReport = check.Report
	// CheckProgress says how far DB.Check has come: Done of Total bytes of files.
	CheckProgress = check.Progress
	// CheckOptions say more about a check.
	CheckOptions struct {
		// Progress, if it is set, is called after each file by the goroutine
		// that called Check. It must not call DB.Close, which would wait for
		// Check and so for itself.
		Progress func(CheckProgress)
	}
)

// Check reads every table and value file and verifies all that can be: every
// checksum, the order of keys, the search structures, that counts and bounds
// are those of the manifest, that levels lie in the order of time, that every
// pointer leads to its value, and that the manifest's counts of garbage are
// exact. It reads the manifest again, which has to say what is known, and the log, as
// far as both are known to be on the device. In a read-only database it also decodes
// what is in the log, and looks for files that nothing refers to.
//
// The report lists all problems. The error has them too, joined, each with the
// name of its file and ErrCorrupt; or it is that of ctx or of the device.
//
// Others may use the database meanwhile. What the check looks at is the state
// at its beginning: files of it that are replaced stay until the check ends. Beyond
// these it keeps nothing, unlike a transaction, neither memory nor what is overwritten
// meanwhile. It reads through handles of its own and leaves the cache of the
// database alone.
func (d *DB) Check(ctx context.Context, o CheckOptions) (*CheckReport, error) {
	ctx, end, err := d.group.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	slot, state, err := d.store.HoldFiles()
	if err != nil {
		return nil, err
	}
	defer d.store.Release(slot)
	files := tree.New(d.unmapped)
	report := new(CheckReport)
	err = fault.Guard(func() (err error) {
		report, err = check.Run(check.Options{
			State:     state,
			OpenTable: files.Open, OpenValues: files.OpenValues,
			Progress: o.Progress, Stop: func() error { return work.Interrupted(ctx) },
		})
		return err
	})
	if err == nil {
		err = d.checkRecords(ctx, report)
	}
	if err != nil {
		return report, fmt.Errorf("check: %w", err)
	}
	return report, report.Err()
}

// checkRecords checks what an opening begins with: the manifest and the log. In one
// that writes nobody knows of damage to them before the next.
func (d *DB) checkRecords(ctx context.Context, report *CheckReport) error {
	if err := noteDamage(report, d.manifest.Verify()); err != nil {
		return err
	}
	if d.opts.ReadOnly {
		return d.checkRest(ctx, report)
	}
	var err error
	report.LogRecords, err = d.commits.VerifyLog(func() error { return work.Interrupted(ctx) })
	return noteDamage(report, err)
}

// noteDamage adds err to the report if it says that a file is damaged, and returns any
// other.
func noteDamage(report *CheckReport, err error) error {
	if errors.Is(err, ErrCorrupt) {
		report.Problems = append(report.Problems, err)
		return nil
	}
	return err
}

// checkRest checks what stands still only in a read-only database.
func (d *DB) checkRest(ctx context.Context, report *CheckReport) error {
	r, err := log.Recover(d.commits.LogOptions(), d.store.State().Spans, func(payload []byte) error {
		if err := work.Interrupted(ctx); err != nil {
			return err
		}
		return txn.Decode(payload, func(txn.Header) error { return nil },
			func(_, _ []byte, _ base.Meta) error { return nil })
	})
	report.LogRecords = r.Records
	if err := noteDamage(report, err); err != nil {
		return err
	}
	orphans, err := d.store.Orphans()
	for _, name := range orphans {
		report.Warnings = append(report.Warnings, name+" belongs to nothing; the next Open that may write deletes it")
	}
	return err
}
