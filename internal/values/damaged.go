package values

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/vfs"
)

// A Hint is what the manifest says of a value file.
type Hint struct {
	Num  base.FileNum
	Salt uint64
}

// A Damaged reads the records that verify of a value file of which any part may be
// damaged. It needs the salt: from the header, from the footer, or from the manifest. If
// the remap of a rewritten file is damaged, it looks for the records themselves. One
// goroutine uses it at a time.
type Damaged struct {
	source
	v *view // finds records by pointer; has no mapping
	// unsure says that pointers may not lead to their records.
	unsure bool
	// places has the offset of each record that verifies, by placeKey. It is nil before
	// it is needed.
	places map[uint64]int64
	// Notes are parts outside of records that are damaged.
	Notes []error
}

// OpenDamaged opens a value file of the given size. hint may be nil. It takes over the
// file unless it fails. A read error of the file counts as damage, so the file should
// return zeros instead.
func OpenDamaged(file vfs.File, size int64, name string, hint *Hint) (*Damaged, error) {
	d := &Damaged{source: source{file: file, name: name}}
	head, err := d.header(size)
	foot, ferr := d.footer(size)
	switch {
	case hint != nil:
		d.fileHeader = fileHeader{salt: hint.Salt, num: hint.Num}
		if err == nil && ferr == nil && head != d.fileHeader && foot.fileHeader != d.fileHeader {
			return nil, d.inFile(head.check(d.fileHeader))
		}
	case err == nil:
		d.fileHeader = head
	case ferr == nil:
		d.fileHeader = foot.fileHeader
	default:
		return nil, d.inFile(err)
	}
	d.v = &view{end: size, num: d.num}
	if err == nil {
		err = head.check(d.fileHeader)
	}
	if ferr == nil {
		ferr = foot.fileHeader.check(d.fileHeader)
	}
	if ferr == nil {
		d.v.end = foot.recordsEnd
		ferr = d.openRemap(&foot)
	}
	d.unsure = ferr != nil
	for _, err := range []error{err, ferr} {
		if err != nil {
			d.Notes = append(d.Notes, d.inFile(err))
		}
	}
	return d, nil
}

// Num returns the identity of the file.
func (d *Damaged) Num() base.FileNum { return d.num }

// header decodes the header of the file.
func (d *Damaged) header(size int64) (fileHeader, error) {
	b := make([]byte, min(size, fileHeaderSize))
	if err := d.read(b, 0); err != nil {
		return fileHeader{}, err
	}
	return decodeFileHeader(b)
}

// footer decodes the footer of the file.
func (d *Damaged) footer(size int64) (footer, error) {
	b := make([]byte, min(size, footerSize))
	if err := d.read(b, size-int64(len(b))); err != nil {
		return footer{}, err
	}
	return decodeFooter(b, size)
}

// openRemap reads the remap of a rewritten file.
func (d *Damaged) openRemap(f *footer) error {
	n := f.remap.size()
	if n == 0 {
		return nil
	}
	section := make([]byte, n)
	if err := d.read(section, f.recordsEnd); err != nil {
		return err
	}
	var err error
	d.v.remap, err = f.decodeRemap(section)
	return err
}

// Value returns the value that p points to, which must be that of version seq of key.
func (d *Damaged) Value(p Pointer, key []byte, seq base.SeqNum) (*ValueReader, error) {
	at, err := d.v.place(p)
	if err == nil {
		var v *ValueReader
		if v, err = d.valueOf(at, d.v.end, p, key, seq); err == nil {
			return v, nil
		}
	}
	if !d.unsure {
		return nil, d.inFile(err)
	}
	if d.places == nil {
		d.scan()
	}
	for _, version := range []base.SeqNum{p.Of(seq), 0} {
		if at, ok := d.places[placeKey(key, version)]; ok {
			if v, err := d.valueOf(at, d.v.end, p, key, seq); err == nil {
				return v, nil
			}
		}
	}
	return nil, d.inFile(err)
}

// placeKey returns a hash of a key and a version. A wrong record does not match its
// pointer.
func placeKey(key []byte, seq base.SeqNum) uint64 { return base.Hash(key, uint64(seq)) }

// scan looks for all records.
func (d *Damaged) scan() {
	d.places = map[uint64]int64{}
	_ = d.Records(func(r RecordInfo) error { // visit never fails
		if r.Err == nil {
			d.places[placeKey(r.Key, r.Seq)] = r.Offset
		}
		return nil
	})
}

// A RecordInfo describes a record, or a part of the file where none verifies.
type RecordInfo struct {
	Offset, Length int64
	Err            error

	Key                 []byte
	Seq                 base.SeqNum
	ValueLen, StoredLen uint32
	Codec               codec.ID
	// Chunks is the number of parts of a long value. They are not verified.
	Chunks int64
}

// scanSlack is how many bytes more than those of the file a scan may verify.
const scanSlack = 64 << 20

// Records calls visit for each record that verifies, at every place where one may begin,
// and for the parts between them.
func (d *Damaged) Records(visit func(RecordInfo) error) error {
	w := window{file: d.file}
	defer w.release()
	budget := 2*d.v.end + scanSlack
	var bad *RecordInfo
	pass := func(to int64) error {
		if bad == nil {
			return nil
		}
		r := *bad
		r.Length, bad = to-r.Offset, nil
		return visit(r)
	}
	for at := int64(fileHeaderSize); at < d.v.end && budget > 0; {
		b, err := w.read(at, min(headerSize, d.v.end-at), d.v.end, windowSize)
		if err != nil {
			return d.inFile(err)
		}
		var v *ValueReader
		h, err := decodeHeader(b, at, d.v.end)
		if err == nil {
			budget -= min(h.size(), h.valueOff()+sumSize*(h.chunks()+1)+chunkSize)
			v, err = d.valueAt(at, d.v.end)
		}
		if err != nil {
			if bad == nil {
				bad = &RecordInfo{Offset: at, Err: d.inFile(err)}
			}
			at += unit
			continue
		}
		if err := pass(at); err != nil {
			return err
		}
		err = visit(RecordInfo{Offset: at, Length: h.size(), Key: v.head[headerSize:], Seq: h.seq,
			ValueLen: h.valueLen, StoredLen: h.storedLen, Codec: h.codec, Chunks: h.chunks()})
		if err != nil {
			return err
		}
		at += h.size()
	}
	return pass(d.v.end)
}

// Salt returns the salt of the file.
func (d *Damaged) Salt() uint64 { return d.salt }

// Remapped returns the number of entries of the remap of a rewritten file.
func (d *Damaged) Remapped() uint32 { return d.v.remap.count }

// Close closes the file.
func (d *Damaged) Close() error {
	return d.file.Close()
}
