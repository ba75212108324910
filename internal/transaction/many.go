package transaction

import (
	"runtime"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/values"
)

// GetMany looks up its keys one after the other, as Get does. Before that it takes each
// step of the lookups for a group of keys together. So their waits for memory and for the
// disk overlap. A lookup in tables goes on where these steps ended. They report nothing.

// groupMax is how many keys GetMany prepares together.
const groupMax = values.AheadSize

// A many is the memory of a GetMany. Later ones reuse it.
type many struct {
	keys   [groupMax][]byte // stored
	ready  [groupMax]ready
	buffer []byte // of stored keys that differ from those of the caller
	tables table.Ahead
	values tree.Ahead
	// found are the entries of the group with pointers.
	found []pointed
	// touched has no meaning. It keeps the compiler from removing loads.
	touched uint64
}

// A ready is a prepared lookup.
type ready struct {
	hash    uint64
	tables  *table.Ahead // nil without lookups in tables
	lookups tree.Prepared
}

// A pointed is an entry with a pointer. Its value is to be dst[at].
type pointed struct {
	base.Entry
	at int
}

// GetMany is stoat.Txn.GetMany.
func (tx Txn) GetMany(keys, dst [][]byte) ([][]byte, error) {
	if err := tx.readable(); err != nil {
		return dst, err
	}
	m, _ := tx.s.engine.manys.Get().(*many)
	if m == nil {
		m = new(many)
	}
	defer tx.s.engine.manys.Put(m)
	defer m.clear()
	all := dst
	for len(keys) > 0 {
		n := min(len(keys), groupMax)
		for i, key := range keys[:n] {
			if err := checkKey(key); err != nil {
				return dst, err
			}
			m.keys[i] = tx.storedForm(&m.buffer, key)
		}
		view := tx.s.view
		if view == nil {
			return dst, base.ErrTxnDone // the transaction ended just now, on another goroutine
		}
		if depth := view.Tree.Depth(); depth > 0 {
			n = min(n, max(1, table.AheadSize/depth))
		}
		prepared := tx.prepare(m, view, n) == nil
		var err error
		if all, err = tx.getGroup(m, n, prepared, all); err != nil {
			return dst, err
		}
		m.buffer, keys = m.buffer[:0], keys[n:]
	}
	return all, nil
}

// clear releases what belongs to the transaction.
func (m *many) clear() {
	clear(m.keys[:])
	clear(m.found[:cap(m.found)])
	m.found, m.buffer = m.found[:0], m.buffer[:0]
	m.tables.Clear()
	m.values.Clear()
}

// storedForm returns the stored form of key. It appends to buffer what differs from key.
func (tx Txn) storedForm(buffer *[]byte, key []byte) []byte {
	if tx.plain(key) {
		return key
	}
	from := len(*buffer)
	*buffer = tx.Space().Append(*buffer, key)
	return (*buffer)[from:len(*buffer):len(*buffer)]
}

// prepare prepares the lookups of the first n keys of m. After an error, none is prepared.
func (tx Txn) prepare(m *many, view *state.View, n int) (err error) {
	defer fault.Enter().Leave(&err)
	touched := uint64(0)
	for i, key := range m.keys[:n] {
		hash := base.Hash(key, tx.s.engine.HashSeed)
		m.ready[i] = ready{hash: hash}
		for _, t := range view.Memtables {
			touched += t.Warm(hash)
		}
	}
	m.tables.Begin()
	for i := range m.ready[:n] {
		r := &m.ready[i]
		found := false
		for _, t := range view.Memtables {
			var sum uint64
			if sum, found = t.WarmEntry(r.hash); found {
				touched += sum
				break
			}
		}
		if found || view.Tree.Depth() > m.tables.Left() {
			continue
		}
		if p, ok := view.Tree.Prepare(&m.tables, m.keys[i], r.hash, tx.s.seq); ok {
			r.tables, r.lookups = &m.tables, p
		}
	}
	m.tables.Load()
	m.touched += touched
	runtime.KeepAlive(m)
	return nil
}

// getGroup appends the values of the first n keys of m to dst.
func (tx Txn) getGroup(m *many, n int, prepared bool, dst [][]byte) ([][]byte, error) {
	m.found = m.found[:0]
	for i, key := range m.keys[:n] {
		r := &m.ready[i]
		if !prepared {
			r = nil
		}
		v, meta, seq, err := tx.lookup(key, r)
		if err == errPartial {
			v, meta, seq, err = tx.fold(key, tx.s.seq, found{v, meta, seq}, foldValues)
		}
		switch {
		case err == base.ErrNotFound:
			v = nil
		case err != nil:
			return nil, err
		case meta.Kind == base.KindPointer:
			m.found = append(m.found, pointed{base.Entry{Key: key, Value: v, Seq: seq}, len(dst)})
			v = nil
		default:
			v = tx.present(v)
		}
		dst = append(dst, v)
	}
	var err error
	if len(m.found) > 0 {
		err = tx.noteRead(tx.fetchGroup(m, dst))
	}
	if mutant.On(mutant.ManySwaps) && n > 1 {
		last := len(dst) - 1
		dst[last-1], dst[last] = dst[last], dst[last-1]
	}
	return dst, err
}

// present returns a value that the caller may read until the transaction ends. It is not
// nil.
func (tx Txn) present(v []byte) []byte {
	if v == nil {
		return []byte{}
	}
	return tx.lend(v)
}

// fetchGroup reads the values of m.found from their files.
func (tx Txn) fetchGroup(m *many, dst [][]byte) (err error) {
	defer fault.Enter().Leave(&err)
	view := tx.s.view
	if view == nil {
		return base.ErrTxnDone
	}
	m.values.Init(view.Tree)
	m.values.Begin()
	for i := range m.found {
		e := &m.found[i]
		pointer := e.Value
		if e.Seq == 0 {
			pointer = nil // of the transaction's own file
		}
		m.values.Add(pointer, e.Key, e.Seq)
	}
	m.values.Load(groupMax)
	for i := range m.found {
		e := &m.found[i]
		v, ok := m.values.Get(i, &tx.s.decoded)
		if !ok {
			if v, err = tx.fetchGuarded(e.Value, e.Key, e.Seq); err != nil {
				return err
			}
		}
		dst[e.at] = tx.present(v)
	}
	return nil
}
