package stoat

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"

	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/salvage"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// SalvageOptions are the options of Salvage.
type SalvageOptions struct {
	// FS and Keys are those of Options. Keys is set if the database is encrypted.
	FS   vfs.FS
	Keys KeyProvider
	// IgnoreManifest reads every file of the directory, as if the manifest were lost.
	IgnoreManifest bool
}

// SalvageReport says what Salvage copied, and what is lost.
type SalvageReport struct {
	// Manifest says that the manifest named the live files. Otherwise every file counts.
	Manifest bool
	// Tables, ValueFiles and Segments count the files that were read.
	Tables, ValueFiles, Segments int
	// Entries counts the copied versions of keys, and Values those from value files.
	// RangeTombstones counts the copied fragments of range deletions.
	Entries, Values, RangeTombstones uint64
	// Lost lists what does not verify. More counts further losses, not listed.
	Lost []SalvageLoss
	More uint64
	// Notes tell what is not as it was, such as the names of keyspaces.
	Notes []string
}

// A SalvageLoss is a part of a file that does not verify.
type SalvageLoss struct {
	// File is the name of the file. Offset is the place of the part, -1 if unknown, and
	// Length its length, 0 if unknown, both in bytes.
	File           string
	Offset, Length int64
	// From and To bound the keys of the lost entries, inclusively. A nil Key is no bound.
	From, To SalvageKey
	// Entries counts the lost entries, 0 if unknown.
	Entries uint64
	// Err says what is wrong.
	Err error
}

// A SalvageKey is a key in a keyspace. The default keyspace has the name "".
type SalvageKey struct {
	Keyspace string
	Key      []byte
}

// Salvage copies everything that verifies of the database in the directory from to a new
// database in to, which must not exist. It changes nothing in from. The error is nil even
// if much is lost: the report lists what. Salvage fails if the keys of an encrypted
// database are lost, and if to cannot be written.
//
// All versions, timestamps, times of expiry and operands of merges are copied as they
// are. In the key range of a loss, an older version or a deleted key can be back.
// Without a readable manifest, that holds for all keys that obsolete files still have,
// operands can count twice, and keyspaces get names such as "keyspace-3". Then set their
// options anew.
func Salvage(ctx context.Context, from, to string, o SalvageOptions) (SalvageReport, error) {
	opts := (&Options{FS: o.FS, Keys: o.Keys}).withDefaults()
	in := salvage.Options{FS: opts.FS, LockName: lockName, DataKeyAge: opts.DataKeyAge, Clock: opts.Clock,
		Random: mathrand.Uint64, Entropy: rand.Reader, Defaults: opts.firstKeyspace().Settings,
		IgnoreManifest: o.IgnoreManifest, Stop: func() error { return work.Interrupted(ctx) }}
	if o.Keys != nil {
		in.Provider = o.Keys
	}
	var report SalvageReport
	err := fault.Guard(func() (err error) {
		if in.From, err = absolute(in.FS, from); err == nil {
			in.To, err = absolute(in.FS, in.FS.Join(to))
		}
		if err != nil {
			return err
		}
		r, err := salvage.Run(ctx, in)
		report = publicReport(&r)
		return err
	})
	if err != nil {
		return report, fmt.Errorf("salvage %s: %w", from, err)
	}
	return report, nil
}

func publicReport(r *salvage.Report) SalvageReport {
	p := SalvageReport{r.Manifest, r.Tables, r.ValueFiles, r.Segments, r.Entries, r.Values, r.RangeTombstones, nil, r.More, r.Notes}
	for _, l := range r.Lost {
		p.Lost = append(p.Lost, SalvageLoss{l.File, l.Offset, l.Length, SalvageKey(l.From), SalvageKey(l.To), l.Entries, l.Err})
	}
	return p
}
