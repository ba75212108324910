package check

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/payload"
)

// Records say where the manifest and the log of a database are.
type Records struct {
	State    manifest.State
	Manifest *manifest.Store
	// VerifyLog verifies the log of a database that is open for writing. It is nil in a
	// read-only database, whose log and files do not change meanwhile. Then Log says where
	// the log is, and Orphans lists unreferenced files.
	VerifyLog func(stop func() error) (records int64, err error)
	Log       log.Options
	Orphans   func() (names []string, err error)
	// Stop returns an error when the check must end.
	Stop func() error
}

// CheckRecords checks the manifest and the log. No other code of a writing database
// reads them again before the next Open.
func (r *Report) CheckRecords(o *Records) (err error) {
	if err := r.note(o.Manifest.Verify()); err != nil {
		return err
	}
	if o.VerifyLog == nil {
		return r.checkRest(o)
	}
	r.LogRecords, err = o.VerifyLog(o.Stop)
	return r.note(err)
}

// checkRest checks the log and the files of a read-only database.
func (r *Report) checkRest(o *Records) error {
	found, err := log.Recover(o.Log, o.State.Spans, func(base.SegmentRef, int64) {}, func(encoded []byte) error {
		if err := o.Stop(); err != nil {
			return err
		}
		return payload.Decode(encoded, func(payload.Header) error { return nil },
			func(key, _ []byte, m base.Meta) error { return r.note(LogEntry(&o.State, key, m)) })
	})
	r.LogRecords = found.Records
	if err := r.note(err); err != nil {
		return err
	}
	orphans, err := o.Orphans()
	for _, name := range orphans {
		r.Warnings = append(r.Warnings, name+" is unreferenced; the next Open for writing deletes it")
	}
	return err
}
