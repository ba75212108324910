package check

import (
	"bytes"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/stamp"
	"github.com/stoatdb/stoat/internal/table"
)

// A stampChecker checks the versions of a keyspace with timestamps, in the order of
// their stored keys.
type stampChecker struct {
	key    []byte // the user's key of the last version
	at     uint64 // its timestamp
	seq    base.SeqNum
	begun  bool
	buffer [64]byte
}

// next checks a version and compares it with the one before.
func (s *stampChecker) next(stored []byte, seq base.SeqNum, m base.Meta) error {
	key, at, err := decodeStamp(stored, s.buffer[:])
	if err == nil {
		err = checkMarks(m)
	}
	if err == nil && s.begun {
		switch order := bytes.Compare(key, s.key); {
		case order < 0:
			err = base.Corrupt(-1, "order of keys", fmt.Sprintf("%.40q", key), fmt.Sprintf("%.40q or a greater one", s.key))
		case order == 0 && at > s.at:
			err = base.Corrupt(-1, "order of timestamps", at, fmt.Sprintf("%d at most", s.at))
		case order == 0 && at == s.at && seq >= s.seq:
			err = base.Corrupt(-1, "order of versions", uint64(seq), fmt.Sprintf("one before %d", s.seq))
		}
	}
	if err != nil {
		return fmt.Errorf("version %d of key %.100q: %w", seq, stored, err)
	}
	s.begun, s.key, s.at, s.seq = true, append(s.key[:0], key...), at, seq
	return nil
}

// decodeStamp returns the user's key and the timestamp of a stored key. The user's key
// is a slice of stored or of buffer.
func decodeStamp(stored, buffer []byte) (key []byte, at uint64, err error) {
	_, encoded, err := keyspace.Decode(stored)
	if err != nil {
		return nil, 0, err
	}
	key, at, ok := stamp.Decode(encoded, buffer)
	if !ok || len(key) == 0 {
		return nil, 0, base.Corrupt(-1, "key with a timestamp", fmt.Sprintf("%.40x", encoded), "an encoded key")
	}
	return key, at, nil
}

// checkMarks checks the kind and the expiry time of a version with a timestamp.
func checkMarks(m base.Meta) error {
	switch {
	case !m.Kind.HasValue():
		return base.Corrupt(-1, "kind of a version with a timestamp", m.Kind.String(), "a value or a deletion at a timestamp")
	case m.ExpiresAt == 0:
		return nil
	case m.Kind == base.KindStampDelete:
		return base.Corrupt(-1, "expiry of a deletion at a timestamp", m.ExpiresAt, "none")
	case m.ExpiresAt <= stamp.ExpiryMark:
		return base.Corrupt(-1, "expiry of a version with a timestamp", m.ExpiresAt, "a marked time")
	}
	return nil
}

// StampedEntry checks the key and the metadata of an entry of a keyspace with timestamps.
// buffer is memory for a user's key that has zero bytes.
func StampedEntry(stored []byte, m base.Meta, buffer []byte) error {
	if _, _, err := decodeStamp(stored, buffer); err != nil {
		return err
	}
	return checkMarks(m)
}

// LogEntry checks an entry of the log, as far as s tells what it must be.
func LogEntry(s *manifest.State, stored []byte, m base.Meta) error {
	if m.Kind == base.KindDeleteRange {
		return nil // bounds of keys need not be keys
	}
	number, err := keyspace.NumberOf(stored)
	if err != nil {
		return err
	}
	k, known := s.Keyspace(number)
	switch {
	case !known: // it was dropped
	case k.Timed():
		err = StampedEntry(stored, m, nil)
	case m.ExpiresAt > base.TimeMsMax:
		err = base.Corrupt(-1, "expiry of a version without a timestamp", m.ExpiresAt, "no mark")
	}
	if err != nil {
		return fmt.Errorf("key %.100q in the log: %w", stored, err)
	}
	return nil
}

// checkStamps checks all versions that a table has of a keyspace with timestamps.
func (c *checker) checkStamps(name string, r *table.Reader, number uint32) error {
	lower, upper := keyspace.Bounds(number)
	it := r.NewIter(table.IterOptions{Unmapped: true, KeysOnly: true})
	it.Seek(lower)
	b := iter.Batch{Want: iter.BatchSize}
	var s stampChecker
	for broken := 0; ; {
		if err := it.Fill(&b); err != nil || b.N == 0 {
			return err
		}
		if err := c.stop(); err != nil {
			return err
		}
		for i := range b.N {
			if bytes.Compare(b.Entries[i].Key, upper) >= 0 {
				return nil
			}
			err := s.next(b.Entries[i].Key, b.Entries[i].Seq, b.Entries[i].Meta)
			if err == nil {
				continue
			}
			c.report.add(fmt.Errorf("%s: %w", name, err))
			if broken++; broken > problemsMax {
				return nil
			}
		}
	}
}
