package backup

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
)

// A Header describes a backup before its first item. It is the concatenation of the
// payloads of the first frames:
//
//	offset  size  field
//	0       4     length of the header in bytes
//	4       8     random number
//	12      8     since
//	20      8     time of the backup, milliseconds of Unix time
//	28      ...   edit of a manifest: format version, ID, version of the snapshot, clock,
//	              features, keyspaces, and fields of a later stoat
type Header struct {
	// Nonce is random. It differs for each backup.
	Nonce uint64
	// Since is the version of the backup before, 0 for a full backup.
	Since base.SeqNum
	// TimeMs is the time of the backup in milliseconds of Unix time.
	TimeMs uint64
	// State describes the database: its LastSeq is the version of the snapshot.
	State manifest.State
}

const (
	headerFixed = 28
	// headerMax is the largest header in bytes: the largest table of keyspaces, and room.
	headerMax = manifest.KeyspacesMax*(5<<10) + 1<<20
)

// An Info describes a backup.
type Info struct {
	Database           string
	Since, Version     uint64
	Time               time.Time
	Entries, Unchanged uint64
}

// Info returns the description, without the counts.
func (h *Header) Info() Info {
	return Info{Database: hex.EncodeToString(h.State.ID[:]), Since: uint64(h.Since), Version: uint64(h.State.LastSeq),
		Time: time.UnixMilli(int64(h.TimeMs)).UTC()}
}

// full reports whether the backup needs no earlier one.
func (h *Header) full() bool { return h.Since == 0 }

// empty reports whether the backup has no items because the snapshot is that of the backup
// before.
func (h *Header) empty() bool {
	return !h.full() && h.Since == h.State.LastSeq && !slices.ContainsFunc(h.State.Keyspaces, filtered)
}

// filtered reports whether a keyspace has, or had, a compaction filter. Filters change
// values without new versions, and drop keys. So the backup has the keyspace as a full one
// does.
func filtered(k *manifest.Keyspace) bool {
	return k.Settings.Filter != "" && !mutant.On(mutant.BackupUnfiltered)
}

// since returns the version that a backup of a keyspace continues.
func (h *Header) since(keyspace uint32) base.SeqNum {
	if k, ok := h.State.Keyspace(keyspace); ok && filtered(k) {
		return 0
	}
	return h.Since
}

// appendTo appends the encoding of h to dst, which is empty.
func (h *Header) appendTo(dst []byte) []byte {
	s := &h.State
	e := manifest.Edit{
		FormatVersion: manifest.Some(s.FormatVersion), ID: manifest.Some(s.ID),
		LastSeq: manifest.Some(s.LastSeq), ClockHighMs: manifest.Some(s.ClockHighMs),
		RequiredFeatures: s.RequiredFeatures, OptionalFeatures: s.OptionalFeatures,
		PutKeyspaces: s.Keyspaces, NextKeyspace: manifest.Some(max(s.NextKeyspace, 1)), Unknown: s.Unknown,
	}
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, h.Nonce)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.Since))
	dst = binary.LittleEndian.AppendUint64(dst, h.TimeMs)
	dst = e.AppendTo(dst)
	binary.LittleEndian.PutUint32(dst, uint32(len(dst)))
	return dst
}

// decodeHeader is the inverse of Header.appendTo.
func decodeHeader(p []byte) (h Header, err error) {
	if len(p) < headerFixed || int(binary.LittleEndian.Uint32(p)) != len(p) {
		return h, base.Corrupt(-1, "length of the header", len(p), fmt.Sprintf("at least %d", headerFixed))
	}
	h.Nonce = binary.LittleEndian.Uint64(p[4:])
	h.Since = base.SeqNum(binary.LittleEndian.Uint64(p[12:]))
	h.TimeMs = binary.LittleEndian.Uint64(p[20:])
	e, err := manifest.DecodeEdit(p[headerFixed:])
	if err != nil {
		return h, err
	}
	if e.HashSeed.Set || e.Spans.Set || e.NextFile.Set || e.FlushedSeq.Set || !e.ID.Set || !e.LastSeq.Set || !e.NextKeyspace.Set ||
		len(e.DropTables)+len(e.AddTables)+len(e.DropValues)+len(e.AddValues)+len(e.ForgetKeyspaces) > 0 {
		return h, base.Corrupt(-1, "fields of the header", "others", "those of a backup")
	}
	if h.State, err = (manifest.State{}).Apply(e); err != nil {
		return h, base.Corrupt(-1, "header", err, "the description of a database")
	}
	if h.Since > h.State.LastSeq || h.TimeMs > base.TimeMsMax {
		return h, base.Corrupt(-1, "versions of the header", fmt.Sprintf("%d to %d", h.Since, h.State.LastSeq), "ascending")
	}
	for _, k := range h.State.Keyspaces {
		if k.Dropping {
			return h, base.Corrupt(-1, "keyspace of the header", k.Number, "one that is not dropped")
		}
	}
	return h, nil
}

// appendEnd appends the payload of the last frame to dst:
//
//	offset  size  field
//	0       8     number of versions
//	8       8     number of unchanged versions
func appendEnd(dst []byte, entries, unchanged uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, entries), unchanged)
}

// After makes h the header of an incremental backup after another one. The zero Info means
// a full backup.
func (h *Header) After(since Info) error {
	now := h.Info()
	switch {
	case since.Version == 0 && since.Database == "":
	case since.Database != now.Database:
		return fmt.Errorf("%w: the backup before is of database %q, this is database %s", ErrChain, since.Database, now.Database)
	case since.Version > now.Version:
		return fmt.Errorf("%w: the backup before ends at version %d, the database is at version %d", ErrChain, since.Version, now.Version)
	}
	h.Since = base.SeqNum(since.Version)
	return nil
}
