package backup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/vfs"
)

// JournalName is the name of the file in which a restore notes what it has done. It has
// frames, as a backup. The payload of the first is
//
//	offset  size       field
//	0       16         ID of the new database
//	16      8          seed of the hash of its keys
//	24      8 × links  random numbers of the backups
//
// and the payload of each other one is the edit of a manifest that adds complete files.
// After a crash, the frames that verify count.
const JournalName = "RESTORE"

const journalFixed = 24

// A plan is the first frame of a journal.
type plan struct {
	id       [16]byte
	hashSeed uint64
	nonces   []uint64
}

func (p *plan) appendTo(dst []byte) []byte {
	dst = append(dst, p.id[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, p.hashSeed)
	for _, n := range p.nonces {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	return dst
}

func decodePlan(b []byte) (p plan, err error) {
	if len(b) < journalFixed || len(b)%8 != 0 {
		return p, base.Corrupt(prefixSize, "length of the plan of a restore", len(b), "24 and 8 for each backup")
	}
	copy(p.id[:], b)
	p.hashSeed = binary.LittleEndian.Uint64(b[16:])
	for b = b[journalFixed:]; len(b) > 0; b = b[8:] {
		p.nonces = append(p.nonces, binary.LittleEndian.Uint64(b))
	}
	return p, nil
}

// A journal is an open journal. It appends at the end of what verified.
type journal struct {
	plan
	file   vfs.File
	at     int64
	frames *frameWriter
}

// createJournal creates a journal, durably.
func createJournal(fs vfs.FS, dir string, p plan) (*journal, error) {
	path := fs.Join(dir, JournalName)
	f, err := fs.Create(path, vfs.CatTemp)
	if err != nil {
		return nil, err
	}
	j := &journal{plan: p, file: f}
	if j.frames, err = newFrameWriter(j, typeJournal); err == nil {
		err = j.append(frameHeader, p.appendTo(nil))
	}
	if err == nil {
		err = fs.SyncDir(dir)
	}
	if err != nil {
		// The next sync may succeed without making the name durable, so it must go.
		return nil, errors.Join(err, f.Close(), fs.Remove(path))
	}
	return j, nil
}

// openJournal opens a journal and returns its edits. It returns no journal if the plan is
// not readable: then the restore had not begun.
func openJournal(fs vfs.FS, dir string) (*journal, []manifest.Edit, error) {
	f, err := fs.OpenReadWrite(fs.Join(dir, JournalName), vfs.CatTemp)
	if err != nil {
		return nil, nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	p, edits, at, chain, err := readJournal(io.NewSectionReader(f, 0, size))
	if errors.Is(err, base.ErrCorrupt) {
		return nil, nil, f.Close()
	} else if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	j := &journal{plan: p, file: f, at: at}
	j.frames = &frameWriter{w: j, chain: chain}
	return j, edits, nil
}

// readJournal returns the plan and the edits of a journal, and where they end.
func readJournal(r io.Reader) (p plan, edits []manifest.Edit, end int64, chain uint64, err error) {
	frames, err := newFrameReader(r, typeJournal)
	if err != nil {
		return p, nil, 0, 0, err
	}
	kind, payload, err := frames.next()
	if err == nil && kind != frameHeader {
		err = base.Corrupt(prefixSize, "first frame of a journal", kind, frameHeader)
	}
	if err == nil {
		p, err = decodePlan(payload)
	}
	for err == nil {
		end, chain = frames.offset, frames.chain
		var e manifest.Edit
		if kind, payload, err = frames.next(); err == nil {
			if e, err = manifest.DecodeEdit(bytes.Clone(payload)); err == nil && kind == frameEdit {
				edits = append(edits, e)
			}
		}
	}
	if end > 0 && errors.Is(err, base.ErrCorrupt) {
		err = nil // a crash cut the rest off
	}
	return p, edits, end, chain, err
}

// Write appends to the file.
func (j *journal) Write(b []byte) (int, error) {
	n, err := j.file.WriteAt(b, j.at)
	j.at += int64(n)
	return n, err
}

// append appends a frame, durably.
func (j *journal) append(kind uint8, payload []byte) error {
	if len(payload) > payloadMax {
		return fmt.Errorf("backup: the journal entry has %d bytes, which is invalid", len(payload))
	}
	if err := j.frames.write(newFrame(kind, payload, nil, nil)); err != nil {
		return err
	}
	return j.file.Sync()
}
