package manifest

import (
	"encoding/binary"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
)

// A tag names a field of an edit. The numbers are part of the format.
//
// An edit holds the fields that are set, in ascending order of their tags,
// each once:
//
//	offset  size  field
//	0       2     tag
//	2       4     length of the value in bytes
//	6       ...   value
//
// Added and dropped tables and value files are separate fields, each a list of
// items (items.go). So one edit makes all outputs of a job live and all its
// inputs obsolete.
//
// A later version of stoat may add tags. A reader may ignore those with the bit
// tagIgnorable (unknown.go). It refuses any other unknown tag with ErrVersion.
type tag uint16

const (
	tagFormatVersion tag = 1
	tagID            tag = 2
	tagHashSeed      tag = 3
	tagSpans         tag = 4 // spanSize bytes for each span
	tagLastSeq       tag = 5
	tagClockHighMs   tag = 6
	tagNextFile      tag = 7
	tagFlushedSeq    tag = 8
	tagDropTables    tag = 9 // tags 9 to 12 are lists of items, never empty
	tagAddTables     tag = 10
	tagDropValues    tag = 11
	tagAddValues     tag = 12

	tagRequiredFeatures tag = 13 // tags 13 to 16 are lists, never empty
	tagOptionalFeatures tag = 14
	tagForgetKeyspaces  tag = 15
	tagPutKeyspaces     tag = 16
	tagNextKeyspace     tag = 17
)

// fieldSizes are the sizes in bytes of the fields whose size is fixed.
var fieldSizes = map[tag]int{tagFormatVersion: 4, tagID: 16, tagHashSeed: 8,
	tagLastSeq: 8, tagClockHighMs: 8, tagNextFile: 8, tagFlushedSeq: 8, tagNextKeyspace: 4}

const (
	fieldHeaderSize = 6

	// spanSize is the size of an encoded base.LogSpan in bytes:
	//
	//	offset  size  field
	//	0       24    first segment: number, file, salt
	//	24      1     1 if sealed, else 0; if 0, the rest is 0
	//	25      24    seal: segment number, offset, chain
	spanSize = 49
)

// AppendTo appends the encoding of e to dst.
func (e Edit) AppendTo(dst []byte) []byte {
	if e.FormatVersion.Set {
		dst = appendField(dst, tagFormatVersion, 4)
		dst = binary.LittleEndian.AppendUint32(dst, e.FormatVersion.Value)
	}
	if e.ID.Set {
		dst = appendField(dst, tagID, len(e.ID.Value))
		dst = append(dst, e.ID.Value[:]...)
	}
	dst = appendUint64(dst, tagHashSeed, e.HashSeed)
	if e.Spans.Set {
		dst = appendField(dst, tagSpans, spanSize*len(e.Spans.Value))
		for _, s := range e.Spans.Value {
			dst = appendSpan(dst, s)
		}
	}
	dst = appendUint64(dst, tagLastSeq, e.LastSeq)
	dst = appendUint64(dst, tagClockHighMs, e.ClockHighMs)
	dst = appendUint64(dst, tagNextFile, e.NextFile)
	dst = appendUint64(dst, tagFlushedSeq, e.FlushedSeq)
	dst = appendItems(dst, tagDropTables, e.DropTables, appendPlace)
	dst = appendItems(dst, tagAddTables, e.AddTables, appendTable)
	dst = appendItems(dst, tagDropValues, e.DropValues, appendFileNum)
	dst = appendItems(dst, tagAddValues, e.AddValues, appendValueFile)
	dst = appendItems(dst, tagRequiredFeatures, e.RequiredFeatures, appendFeature)
	dst = appendItems(dst, tagOptionalFeatures, e.OptionalFeatures, appendFeature)
	dst = appendItems(dst, tagForgetKeyspaces, e.ForgetKeyspaces, appendKeyspaceNumber)
	dst = appendItems(dst, tagPutKeyspaces, e.PutKeyspaces, appendKeyspace)
	if e.NextKeyspace.Set {
		dst = appendField(dst, tagNextKeyspace, 4)
		dst = binary.LittleEndian.AppendUint32(dst, e.NextKeyspace.Value)
	}
	for _, f := range e.Unknown {
		dst = append(appendField(dst, tag(f.Tag), len(f.Value)), f.Value...)
	}
	return dst
}

// appendField appends the header of a field.
func appendField(dst []byte, t tag, n int) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(t))
	return binary.LittleEndian.AppendUint32(dst, uint32(n))
}

// appendUint64 appends a field of 8 bytes if it is set.
func appendUint64[T ~uint64](dst []byte, t tag, o Optional[T]) []byte {
	if !o.Set {
		return dst
	}
	return binary.LittleEndian.AppendUint64(appendField(dst, t, 8), uint64(o.Value))
}

// appendSpan appends the encoding of s.
func appendSpan(dst []byte, s base.LogSpan) []byte {
	sealed := byte(0)
	if s.Sealed {
		sealed = 1
	} else {
		s.EndNumber, s.End, s.EndChain = 0, 0, 0
	}
	dst = binary.LittleEndian.AppendUint64(dst, s.First.Number)
	dst = binary.LittleEndian.AppendUint64(dst, s.First.File)
	dst = binary.LittleEndian.AppendUint64(dst, s.First.Salt)
	dst = append(dst, sealed)
	dst = binary.LittleEndian.AppendUint64(dst, s.EndNumber)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s.End))
	return binary.LittleEndian.AppendUint64(dst, s.EndChain)
}

// DecodeEdit is the inverse of Edit.AppendTo. Offsets in its errors are
// relative to p. It accepts only what AppendTo returns, now or in older versions. An
// unknown required feature is the first error: the rest of the edit may have a format that
// it changes.
func DecodeEdit(p []byte) (Edit, error) {
	var e Edit
	if err := checkFeaturesOf(p); err != nil {
		return e, err
	}
	last := tag(0)
	for offset := 0; offset < len(p); {
		rest := p[offset:]
		if len(rest) < fieldHeaderSize {
			return Edit{}, base.Corrupt(int64(offset), "field header size", len(rest), fieldHeaderSize)
		}
		t := tag(binary.LittleEndian.Uint16(rest))
		n := binary.LittleEndian.Uint32(rest[2:])
		rest = rest[fieldHeaderSize:]
		if t <= last {
			return Edit{}, base.Corrupt(int64(offset), "order of fields", t, fmt.Sprintf("above %d", last))
		}
		if int64(n) > int64(len(rest)) {
			return Edit{}, base.Corrupt(int64(offset), "field length", n, fmt.Sprintf("at most %d", len(rest)))
		}
		if err := e.decodeField(t, rest[:n], int64(offset+fieldHeaderSize)); err != nil {
			return Edit{}, err
		}
		last = t
		offset += fieldHeaderSize + int(n)
	}
	return e, nil
}

// checkFeaturesOf reports unknown features that the edit p requires, and a format
// version above the known one. It passes over damage.
func checkFeaturesOf(p []byte) error {
	for len(p) >= fieldHeaderSize {
		t, n := tag(binary.LittleEndian.Uint16(p)), binary.LittleEndian.Uint32(p[2:])
		p = p[fieldHeaderSize:]
		if int64(n) > int64(len(p)) {
			return nil
		}
		switch v := p[:n]; {
		case t == tagFormatVersion && n == 4:
			if got := binary.LittleEndian.Uint32(v); got > FormatVersion {
				return fmt.Errorf("%w: format version %d, this version knows %d", base.ErrVersion, got, FormatVersion)
			}
		case t == tagRequiredFeatures:
			// Bad bytes in the list are an error of the decoder.
			if names, err := decodeFeatures(v, 0); err == nil {
				return checkKnown(names)
			}
		}
		p = p[n:]
	}
	return nil
}

// decodeField decodes the value v, which is at offset, into the field that t
// names.
func (e *Edit) decodeField(t tag, v []byte, offset int64) (err error) {
	if size, fixed := fieldSizes[t]; fixed && len(v) != size {
		return base.Corrupt(offset, fmt.Sprintf("size of field %d", t), len(v), size)
	}
	switch t {
	case tagFormatVersion:
		e.FormatVersion = Some(binary.LittleEndian.Uint32(v)) // checkFeaturesOf has compared it
	case tagID:
		e.ID = Some([16]byte(v))
	case tagHashSeed:
		e.HashSeed = Some(binary.LittleEndian.Uint64(v))
	case tagSpans:
		return e.decodeSpans(v, offset)
	case tagLastSeq:
		e.LastSeq = Some(base.SeqNum(binary.LittleEndian.Uint64(v)))
	case tagClockHighMs:
		e.ClockHighMs = Some(binary.LittleEndian.Uint64(v))
	case tagNextFile:
		e.NextFile = Some(binary.LittleEndian.Uint64(v))
	case tagFlushedSeq:
		e.FlushedSeq = Some(base.SeqNum(binary.LittleEndian.Uint64(v)))
	case tagDropTables:
		e.DropTables, err = decodeItems(v, offset, decodePlace)
	case tagAddTables:
		e.AddTables, err = decodeItems(v, offset, decodeTable)
	case tagDropValues:
		e.DropValues, err = decodeItems(v, offset, decodeFileNum)
	case tagAddValues:
		e.AddValues, err = decodeItems(v, offset, decodeValueFile)
	case tagRequiredFeatures:
		e.RequiredFeatures, err = decodeFeatures(v, offset)
	case tagOptionalFeatures:
		e.OptionalFeatures, err = decodeFeatures(v, offset)
	case tagForgetKeyspaces:
		e.ForgetKeyspaces, err = decodeItems(v, offset, decodeKeyspaceNumber)
	case tagPutKeyspaces:
		e.PutKeyspaces, err = decodeItems(v, offset, decodeKeyspace)
	case tagNextKeyspace:
		e.NextKeyspace = Some(binary.LittleEndian.Uint32(v))
	default:
		if t&tagIgnorable != 0 {
			return e.decodeUnknown(t, v, offset)
		}
		err = fmt.Errorf("%w: manifest field with tag %d, this version knows format version %d",
			base.ErrVersion, t, FormatVersion)
	}
	return err
}

// decodeSpans decodes the list of spans.
func (e *Edit) decodeSpans(v []byte, offset int64) error {
	if len(v)%spanSize != 0 {
		return base.Corrupt(offset, "size of the spans", len(v), fmt.Sprintf("a multiple of %d", spanSize))
	}
	spans := make([]base.LogSpan, 0, len(v)/spanSize)
	for ; len(v) > 0; v = v[spanSize:] {
		s := base.LogSpan{
			First: base.SegmentRef{
				Number: binary.LittleEndian.Uint64(v),
				File:   binary.LittleEndian.Uint64(v[8:]),
				Salt:   binary.LittleEndian.Uint64(v[16:]),
			},
			Sealed:    v[24] == 1,
			EndNumber: binary.LittleEndian.Uint64(v[25:]),
			End:       int64(binary.LittleEndian.Uint64(v[33:])),
			EndChain:  binary.LittleEndian.Uint64(v[41:]),
		}
		open := s.EndNumber == 0 && s.End == 0 && s.EndChain == 0
		if v[24] > 1 || (v[24] == 0 && !open) {
			return base.Corrupt(offset, "seal of a span", v[24], "0 and no seal, or 1")
		}
		spans = append(spans, s)
	}
	e.Spans = Some(spans)
	return nil
}
