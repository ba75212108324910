package manifest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// Settings are what the database keeps for a keyspace: which entries stay, and
// how they are stored. A zero field is not set. Settings are comparable.
type Settings struct {
	// NumVersions is how many versions of a key stay at least.
	NumVersions uint32
	// Compression names how values are compressed, 1 to CompressionMax.
	Compression uint8
	// ValueThreshold is the length in bytes from which values lie in value files.
	ValueThreshold uint64
	// LargeValueThreshold is the length in bytes from which a value is large.
	LargeValueThreshold uint64
	// DefaultTTLMs is the time to live of entries without their own, in
	// milliseconds.
	DefaultTTLMs uint64
	// MergeFunction is the name of the function that folds operands.
	MergeFunction string
	// Filter is the name of the filter of compactions.
	Filter string
	// Timestamps is not 0 if the caller chooses the timestamps of versions. Its value
	// says whether reads at a timestamp conflict with later commits.
	Timestamps uint8
	// DiscardBelow is the timestamp below which no reader reads.
	DiscardBelow uint64
	// ChangeRetention is the number of bytes of the log that stay for feeds of changes.
	// Only the default keyspace has it.
	ChangeRetention uint64
	// Unknown holds the encoded settings of a later stoat that this one may
	// ignore, in ascending order of their tags.
	Unknown string
}

const (
	// CompressionMax is the highest number of a compression.
	CompressionMax = 3
	// TimestampsChecked and TimestampsUnchecked are the values of Settings.Timestamps.
	TimestampsChecked   = 1
	TimestampsUnchecked = 2
	// SettingNameMax is the longest name of a function or filter in bytes.
	SettingNameMax = 255
	// settingsMax is the largest encoding of Settings in bytes.
	settingsMax = 4 << 10

	// tagIgnorable is the bit of a tag that says that a reader may ignore the
	// field. It keeps the field, and writes it back unchanged.
	tagIgnorable = 1 << 15
)

// The tags of settings. The encoding of Settings holds the fields that are set, in
// ascending order of their tags, each once:
//
//	offset  size  field
//	0       2     tag
//	2       2     n, the length of the value in bytes, at least 1
//	4       n     value
const (
	setNumVersions         = 1 // 4 bytes
	setCompression         = 2 // 1 byte
	setValueThreshold      = 3 // 8 bytes
	setLargeValueThreshold = 4 // 8 bytes
	setDefaultTTLMs        = 5 // 8 bytes
	setMergeFunction       = 6 // text
	setFilter              = 7 // text
	setTimestamps          = 8 // 1 byte, 1 with checks of conflicts, 2 without
	setDiscardBelow        = 9 // 8 bytes

	// setChangeRetention is the first tag that a reader may ignore: 8 bytes. An older
	// stoat keeps the setting, and does not keep the log.
	setChangeRetention = tagIgnorable

	settingHeaderSize = 4
)

// settingSizes are the sizes in bytes of the settings whose size is fixed.
var settingSizes = map[uint16]int{setNumVersions: 4, setCompression: 1, setValueThreshold: 8,
	setLargeValueThreshold: 8, setDefaultTTLMs: 8, setTimestamps: 1, setDiscardBelow: 8, setChangeRetention: 8}

// appendTo appends the encoding of s to dst.
func (s *Settings) appendTo(dst []byte) []byte {
	header := func(tag uint16, n int) {
		invariant.Check(n > 0 && n <= math.MaxUint16, "setting %d of %d bytes", tag, n)
		dst = binary.LittleEndian.AppendUint16(dst, tag)
		dst = binary.LittleEndian.AppendUint16(dst, uint16(n))
	}
	number := func(tag uint16, n uint64) {
		if n != 0 {
			header(tag, 8)
			dst = binary.LittleEndian.AppendUint64(dst, n)
		}
	}
	text := func(tag uint16, name string) {
		if name != "" {
			header(tag, len(name))
			dst = append(dst, name...)
		}
	}
	if s.NumVersions != 0 {
		header(setNumVersions, 4)
		dst = binary.LittleEndian.AppendUint32(dst, s.NumVersions)
	}
	if s.Compression != 0 {
		header(setCompression, 1)
		dst = append(dst, s.Compression)
	}
	number(setValueThreshold, s.ValueThreshold)
	number(setLargeValueThreshold, s.LargeValueThreshold)
	number(setDefaultTTLMs, s.DefaultTTLMs)
	text(setMergeFunction, s.MergeFunction)
	text(setFilter, s.Filter)
	if s.Timestamps != 0 {
		header(setTimestamps, 1)
		dst = append(dst, s.Timestamps)
	}
	number(setDiscardBelow, s.DiscardBelow)
	number(setChangeRetention, s.ChangeRetention)
	return append(dst, s.Unknown...)
}

// decodeSettings is the inverse of Settings.appendTo. v is at offset.
func decodeSettings(v []byte, offset int64) (Settings, error) {
	var s Settings
	if len(v) > settingsMax {
		return s, base.Corrupt(offset, "size of settings", len(v), fmt.Sprintf("at most %d", settingsMax))
	}
	last := uint16(0)
	for len(v) > 0 {
		if len(v) < settingHeaderSize {
			return s, base.Corrupt(offset, "setting header size", len(v), settingHeaderSize)
		}
		tag, n := binary.LittleEndian.Uint16(v), int(binary.LittleEndian.Uint16(v[2:]))
		field := v[settingHeaderSize:]
		switch {
		case tag <= last:
			return s, base.Corrupt(offset, "order of settings", tag, fmt.Sprintf("above %d", last))
		case n == 0 || n > len(field):
			return s, base.Corrupt(offset, "length of a setting", n, fmt.Sprintf("1 to %d", len(field)))
		}
		if tag > setChangeRetention {
			s.Unknown += string(v[:settingHeaderSize+n])
		} else if err := s.decodeField(tag, field[:n], offset+settingHeaderSize); err != nil {
			return s, err
		}
		last = tag
		v, offset = field[n:], offset+settingHeaderSize+int64(n)
	}
	return s, nil
}

// decodeField decodes the value v, which is at offset, into the setting that tag
// names. A setting that is not set has no field, so zero is not valid.
func (s *Settings) decodeField(tag uint16, v []byte, offset int64) error {
	if size, fixed := settingSizes[tag]; fixed && len(v) != size {
		return base.Corrupt(offset, fmt.Sprintf("size of setting %d", tag), len(v), size)
	}
	number, set := uint64(0), true
	if size := settingSizes[tag]; size == 8 {
		number = binary.LittleEndian.Uint64(v)
		set = number != 0
	}
	switch tag {
	case setNumVersions:
		s.NumVersions = binary.LittleEndian.Uint32(v)
		set = s.NumVersions != 0
	case setCompression:
		s.Compression = v[0]
		set = s.Compression != 0
	case setValueThreshold:
		s.ValueThreshold = number
	case setLargeValueThreshold:
		s.LargeValueThreshold = number
	case setDefaultTTLMs:
		s.DefaultTTLMs = number
	case setMergeFunction:
		s.MergeFunction = string(v)
	case setFilter:
		s.Filter = string(v)
	case setTimestamps:
		s.Timestamps = v[0]
		set = s.Timestamps == TimestampsChecked || s.Timestamps == TimestampsUnchecked
	case setDiscardBelow:
		s.DiscardBelow = number
	case setChangeRetention:
		s.ChangeRetention = number
	default:
		return fmt.Errorf("%w: setting with tag %d, this version knows format version %d", base.ErrVersion, tag, FormatVersion)
	}
	if !set {
		return base.Corrupt(offset, fmt.Sprintf("setting %d", tag), v[0], "a valid value, or none")
	}
	return nil
}

// check reports settings out of range.
func (s *Settings) check() error {
	switch {
	case s.NumVersions > math.MaxInt32:
		return fmt.Errorf("manifest: setting of %d versions, want at most %d", s.NumVersions, math.MaxInt32)
	case s.Compression > CompressionMax:
		return fmt.Errorf("manifest: setting of compression %d, want at most %d", s.Compression, CompressionMax)
	case max(s.ValueThreshold, s.LargeValueThreshold) > fileSizeMax:
		return fmt.Errorf("manifest: setting of value thresholds %d and %d, want at most %d",
			s.ValueThreshold, s.LargeValueThreshold, uint64(fileSizeMax))
	case s.DefaultTTLMs > base.TimeMsMax:
		return fmt.Errorf("manifest: setting of a time to live of %d ms, want less than 2^63", s.DefaultTTLMs)
	case s.ChangeRetention > math.MaxInt64:
		return fmt.Errorf("manifest: setting of %d bytes of the log for feeds, want less than 2^63", s.ChangeRetention)
	case s.Timestamps > TimestampsUnchecked || s.Timestamps == 0 && s.DiscardBelow > 0:
		return fmt.Errorf("manifest: setting %d of timestamps, with %d as the discard point", s.Timestamps, s.DiscardBelow)
	case max(len(s.MergeFunction), len(s.Filter)) > SettingNameMax:
		return fmt.Errorf("manifest: setting of names of %d and %d bytes, want at most %d",
			len(s.MergeFunction), len(s.Filter), SettingNameMax)
	case len(s.appendTo(nil)) > settingsMax:
		return fmt.Errorf("manifest: settings take %d bytes, want at most %d", len(s.appendTo(nil)), settingsMax)
	}
	return nil
}
