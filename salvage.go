package stoat

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"

	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/salvage"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// SalvageOptions are the options of Salvage.
type SalvageOptions struct {
	// FS and Keys mean what they mean in Options. An encrypted database needs Keys.
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
	// Entries counts the copied versions of keys, Values those from value files, and
	// RangeTombstones the copied fragments of range deletions.
	Entries, Values, RangeTombstones uint64
	// Lost lists what does not verify. More counts further losses.
	Lost []SalvageLoss
	More uint64
	// Notes name what Salvage restored without proof, such as the names of keyspaces.
	Notes []string
}

// A SalvageLoss is a part of a file that does not verify.
type SalvageLoss struct {
	// File is the name of the file. Offset and Length are in bytes, -1 and 0 if unknown.
	File           string
	Offset, Length int64
	// From and To bound the lost keys, inclusively. A nil Key is no bound.
	From, To SalvageKey
	// Entries counts the lost versions, 0 if unknown. Err says what is wrong.
	Entries uint64
	Err     error
}

// A SalvageKey is a key in a keyspace.
type SalvageKey struct {
	// Keyspace is the name of the keyspace, empty for the default one.
	Keyspace string
	// Key is the key as in Txn.Get.
	Key []byte
}

// Salvage copies all that verifies of the database in from to a new database in to, which
// must not exist. It changes nothing in from. It returns no error for losses: the report
// lists them. It fails if the keys of an encrypted database are lost, and if it may not open
// a file. The copy of an encrypted database is encrypted too, and opens with the same Keys.
//
// All versions, times and operands are copied as they are. In the key range of a loss,
// older versions and deleted keys may return.
//
// Without a readable manifest, data from obsolete files, such as deleted keys, may return, and
// operands may count twice. Values may be as they were before a compaction filter. Keyspaces
// get names such as "keyspace-3" and the default settings, which the caller then sets anew.
// Salvage copies ingested entries whose version only the manifest had. It still reports them
// as lost, because older values or deletions of their keys may hide them.
func Salvage(ctx context.Context, from, to string, o SalvageOptions) (SalvageReport, error) {
	ctx = work.Given(ctx)
	opts := (&Options{FS: o.FS, Keys: o.Keys}).withDefaults()
	in := salvage.Options{FS: opts.FS, DataKeyAge: opts.DataKeyAge, Clock: opts.Clock,
		Provider: o.Keys, Random: mathrand.Uint64, Entropy: rand.Reader, Defaults: opts.given().FirstKeyspace().Settings,
		IgnoreManifest: o.IgnoreManifest, Stop: func() error { return work.Interrupted(ctx) }}
	var err error
	if in.From, err = absolute(in.FS, from); err == nil {
		in.To, err = absolute(in.FS, in.FS.Join(to))
	}
	var r salvage.Report
	if err == nil {
		r, err = salvage.Run(ctx, in)
	}
	if err != nil {
		err = fmt.Errorf("salvage %s: %w", from, err)
	}
	p := SalvageReport{r.Manifest, r.Tables, r.ValueFiles, r.Segments, r.Entries, r.Values, r.RangeTombstones, nil, r.More, r.Notes}
	for _, l := range r.Lost {
		p.Lost = append(p.Lost, SalvageLoss{l.File, l.Offset, l.Length, SalvageKey(l.From), SalvageKey(l.To), l.Entries, l.Err})
	}
	return p, err
}

// A TableRepair says what Repair made of a damaged table.
type TableRepair struct {
	// File is the name of the table. Parts are the names of its damaged parts, such as
	// "hash index".
	File  string
	Parts []string
	// New is the name of the table that replaces it, empty if Repair could not repair it.
	New string
	// Err says why Repair could not repair the table.
	Err error
}

// Repair rebuilds what the rest of a table determines: its hash index, its block index, the
// checksums of its blocks, its properties and its footer. Repair reads all tables of the
// database in dir, and reports the damaged ones. Of o it uses FS, Keys and Clock. A nil o means
// the defaults.
//
// Repair replaces a table only if it finds every entry. It reports a table that the device
// cannot read, and goes on. Salvage copies what is left of other tables. Repair needs an
// intact manifest, intact data keys and the database for itself. A crash or a done ctx
// leaves each table as it was, or repaired. Without a database, Repair returns
// fs.ErrNotExist of package io/fs.
func Repair(ctx context.Context, dir string, o *Options) ([]TableRepair, error) {
	if o != nil && o.ReadOnly {
		return nil, ErrReadOnly
	}
	ctx, opts := work.Given(ctx), o.withDefaults()
	in := salvage.Options{FS: opts.FS, Clock: opts.Clock, Provider: opts.Keys,
		Random: mathrand.Uint64, Entropy: rand.Reader, Stop: func() error { return work.Interrupted(ctx) }}
	var err error
	if in.From, err = absolute(in.FS, dir); err == nil {
		err = manifest.CheckExists(in.FS, in.From)
	}
	var done []salvage.Repair
	if err == nil {
		in.FS = vfs.Strict(in.FS, in.From)
		done, err = salvage.RepairTables(ctx, in)
	}
	if err != nil {
		err = fmt.Errorf("repair %s: %w", dir, err)
	}
	var repairs []TableRepair
	for _, r := range done {
		repairs = append(repairs, TableRepair(r))
	}
	return repairs, err
}
