package manifest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
)

// A Keyspace is an entry of the table of keyspaces. It is immutable.
type Keyspace struct {
	// Number is part of the stored keys. Number 0 is the default keyspace, which
	// always exists. No number is used again.
	Number uint32
	// Name is empty for keyspace 0. No two live keyspaces share a name.
	Name string
	// Dropping says that the keyspace has been dropped, and that files may still
	// hold keys of it.
	Dropping bool
	Settings Settings
}

const (
	// KeyspaceNameMax is the longest name of a keyspace in bytes.
	KeyspaceNameMax = 255
	// KeyspacesMax is the largest number of keyspaces in the table, with the
	// default keyspace and dropped ones.
	KeyspacesMax = 1 << 16

	// keyspaceFixedSize is the size in bytes of the part before the name in an
	// encoded Keyspace:
	//
	//	offset  size  field
	//	0       4     number
	//	4       1     1 if live, 2 if dropped
	//	5       1     n, the length of the name
	//	6       n     name
	//	...     ...   settings (settings.go)
	keyspaceFixedSize = 6
	keyspaceLive      = 1
	keyspaceDropping  = 2
	// keyspaceNumberSize is the size of a keyspace's number in bytes.
	keyspaceNumberSize = 4
)

// defaultKeyspace is keyspace 0 before its settings are stored.
var defaultKeyspace = new(Keyspace)

func appendKeyspace(dst []byte, k *Keyspace) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, k.Number)
	state := byte(keyspaceLive)
	if k.Dropping {
		state = keyspaceDropping
	}
	dst = append(dst, state, byte(len(k.Name)))
	dst = append(dst, k.Name...)
	return k.Settings.appendTo(dst)
}

func decodeKeyspace(v []byte, offset int64) (*Keyspace, error) {
	if len(v) < keyspaceFixedSize {
		return nil, base.Corrupt(offset, "size of a keyspace's entry", len(v), fmt.Sprintf("at least %d", keyspaceFixedSize))
	}
	k := &Keyspace{Number: binary.LittleEndian.Uint32(v), Dropping: v[4] == keyspaceDropping}
	if v[4] != keyspaceLive && v[4] != keyspaceDropping {
		return nil, base.Corrupt(offset+4, "state of a keyspace", v[4], "1 or 2")
	}
	n := keyspaceFixedSize + int(v[5])
	if n > len(v) {
		return nil, base.Corrupt(offset+5, "length of a keyspace's name", v[5], fmt.Sprintf("at most %d", len(v)-keyspaceFixedSize))
	}
	k.Name = string(v[keyspaceFixedSize:n])
	var err error
	if k.Settings, err = decodeSettings(v[n:], offset+int64(n)); errors.Is(err, base.ErrVersion) {
		err = fmt.Errorf("keyspace %d %q: %w", k.Number, k.Name, err)
	}
	return k, err
}

func appendKeyspaceNumber(dst []byte, n uint32) []byte {
	return binary.LittleEndian.AppendUint32(dst, n)
}

func decodeKeyspaceNumber(v []byte, offset int64) (uint32, error) {
	if len(v) != keyspaceNumberSize {
		return 0, base.Corrupt(offset, "size of a keyspace's number", len(v), keyspaceNumberSize)
	}
	return binary.LittleEndian.Uint32(v), nil
}

// check reports a keyspace that cannot exist.
func (k *Keyspace) check() error {
	switch {
	case k.Number == 0 && (k.Name != "" || k.Dropping):
		return fmt.Errorf("manifest: the default keyspace has the name %q or is dropped", k.Name)
	case k.Number > 0 && (k.Name == "" || len(k.Name) > KeyspaceNameMax):
		return fmt.Errorf("manifest: keyspace %d has a name of %d bytes, want 1 to %d", k.Number, len(k.Name), KeyspaceNameMax)
	}
	if err := k.Settings.check(); err != nil {
		return fmt.Errorf("manifest: keyspace %d: %w", k.Number, err)
	}
	return nil
}

// byKeyspace compares a keyspace with a number, for binary search.
func byKeyspace(k *Keyspace, number uint32) int { return cmp.Compare(k.Number, number) }

// Keyspace returns the keyspace with the given number, live or dropped.
func (s *State) Keyspace(number uint32) (*Keyspace, bool) {
	i, ok := slices.BinarySearchFunc(s.Keyspaces, number, byKeyspace)
	if !ok {
		return nil, false
	}
	return s.Keyspaces[i], true
}

// Timed reports whether the keyspace has timestamps.
func (k *Keyspace) Timed() bool { return k.Settings.Timestamps != 0 }

// Timed reports whether a keyspace of the database has timestamps.
func (s *State) Timed(number uint32) bool {
	k, known := s.Keyspace(number)
	return known && k.Timed()
}

// ChangesKeyspaces reports whether a later table of keyspaces lacks a keyspace of an earlier one,
// or has it changed or dropped. A new keyspace does not count.
func ChangesKeyspaces(before, later []*Keyspace) bool {
	s := State{Keyspaces: later}
	return slices.ContainsFunc(before, func(k *Keyspace) bool {
		now, ok := s.Keyspace(k.Number)
		return !ok || *now != *k
	})
}

// A keyspaceDraft is a table of keyspaces in progress. It starts as a table that
// other states share, and copies it before its first change.
type keyspaceDraft struct {
	table []*Keyspace
	owned bool
	many  bool // the draft takes many edits
	// names counts the live keyspaces by name, once many edits or puts need it.
	names map[string]int
}

// linearPuts is the number of puts in one edit up to which a scan of the table
// looks for equal names. A scan only compares short strings. Counting the names would
// cost a map of all of them for each edit, because the table of a state never changes.
const linearPuts = 16

// apply applies e to the table: it forgets keyspaces, then puts some. Numbers that are not
// in the table must not be below next, the counter before e. All numbers must be below
// limit, the counter after e.
func (d *keyspaceDraft) apply(e *Edit, next, limit uint32) error {
	if d.table == nil {
		d.table = []*Keyspace{defaultKeyspace}
		d.owned = true
	}
	if len(e.ForgetKeyspaces)+len(e.PutKeyspaces) == 0 {
		return nil
	}
	if !d.owned {
		table := make([]*Keyspace, len(d.table), len(d.table)+len(e.PutKeyspaces)) // so that no put copies it again
		copy(table, d.table)
		d.table, d.owned = table, true
	}
	if d.names == nil && (d.many || len(e.PutKeyspaces) > linearPuts) {
		d.names = map[string]int{}
		for _, k := range d.table {
			d.count(k, 1)
		}
	}
	for _, number := range e.ForgetKeyspaces {
		i, ok := slices.BinarySearchFunc(d.table, number, byKeyspace)
		if !ok || !d.table[i].Dropping {
			return fmt.Errorf("manifest: keyspace %d is forgotten, but no such keyspace is dropped", number)
		}
		d.table = slices.Delete(d.table, i, i+1)
	}
	for i, k := range e.PutKeyspaces {
		if i > 0 && e.PutKeyspaces[i-1].Number >= k.Number {
			return fmt.Errorf("manifest: keyspace %d is put after keyspace %d", k.Number, e.PutKeyspaces[i-1].Number)
		}
		if err := d.put(k, next, limit); err != nil {
			return err
		}
	}
	return nil
}

// put adds or replaces one keyspace.
func (d *keyspaceDraft) put(k *Keyspace, next, limit uint32) error {
	if err := k.check(); err != nil {
		return err
	}
	i, found := slices.BinarySearchFunc(d.table, k.Number, byKeyspace)
	switch {
	case k.Number >= limit:
		return fmt.Errorf("manifest: keyspace %d, but the next keyspace is %d", k.Number, limit)
	case !found && k.Number < next:
		return fmt.Errorf("manifest: keyspace %d was used before", k.Number)
	case !found && len(d.table) >= KeyspacesMax:
		return fmt.Errorf("manifest: more than %d keyspaces", KeyspacesMax)
	case !found:
		d.table = append(d.table, nil) // all numbers in the table are below next
	case d.table[i].Dropping && !k.Dropping:
		return fmt.Errorf("manifest: keyspace %d is dropped, and cannot come back", k.Number)
	default:
		d.count(d.table[i], -1)
	}
	d.table[i] = k
	d.count(k, 1)
	if d.sharesName(k) {
		return fmt.Errorf("manifest: two keyspaces have the name %q", k.Name)
	}
	return nil
}

// count adds n to the count of the name of k, if k is live and names are counted.
func (d *keyspaceDraft) count(k *Keyspace, n int) {
	if d.names == nil || k.Dropping {
		return
	}
	if d.names[k.Name] += n; d.names[k.Name] == 0 {
		delete(d.names, k.Name)
	}
}

// sharesName reports whether another live keyspace has the name of k.
func (d *keyspaceDraft) sharesName(k *Keyspace) bool {
	if k.Dropping {
		return false
	}
	if d.names != nil {
		return d.names[k.Name] > 1
	}
	return slices.ContainsFunc(d.table, func(o *Keyspace) bool {
		return o != k && !o.Dropping && o.Name == k.Name
	})
}
