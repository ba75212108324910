package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A SignFilter drops values that begin with "drop", and rewrites those that begin with
// "edit". It reads only values of some lengths.
type SignFilter struct{}

// Name implements stoat.Filter.
func (SignFilter) Name() string { return "sign" }

// Filter implements stoat.Filter.
func (f SignFilter) Filter(_ []byte, v *stoat.FilterValue) (stoat.FilterDecision, []byte) {
	if v.Size() < 4 {
		return stoat.FilterKeep, nil
	}
	b, err := v.Bytes()
	if err != nil {
		return stoat.FilterKeep, nil
	}
	return f.decide(b)
}

func (SignFilter) decide(value []byte) (stoat.FilterDecision, []byte) {
	switch {
	case bytes.HasPrefix(value, []byte("drop")):
		return stoat.FilterDrop, nil
	case bytes.HasPrefix(value, []byte("edit")):
		return stoat.FilterRewrite, append([]byte("done"), value[4:]...)
	}
	return stoat.FilterKeep, nil
}

// screened returns what keys show after SignFilter has seen all of them.
func screened(keys map[string]string) map[string]string {
	all := make(map[string]string)
	for key, value := range keys {
		switch decision, edited := (SignFilter{}).decide([]byte(value)); decision {
		case stoat.FilterRewrite:
			all[key] = string(edited)
		case stoat.FilterKeep:
			all[key] = value
		}
	}
	return all
}

// farAway is an expiry time that no life reaches, in milliseconds of Unix time.
const farAway = 1 << 45

// filteredLife is the number of transactions of a life with a filter.
const filteredLife = 400

// A filtered is a life of a database with a compaction filter. A compaction may change
// the newest version of a key at any time. So a read may show what the filter made of it
// or not, but never an older version.
type filtered struct {
	db     *stoat.DB
	rng    *rand.Rand
	m      *model.Map
	values int
	// open are transactions with what they saw when they began.
	open []heldView
}

type heldView struct {
	tx   stoat.Txn
	seen map[string]string
}

// RunFiltered plays a life with a compaction filter.
func RunFiltered(seed uint64) (err error) {
	l := &filtered{rng: rand.New(rand.NewPCG(seed, 0xf117)), m: model.NewMap()}
	l.db, err = stoat.Open(testkit.Dir, &stoat.Options{
		FS: memfs.New(), MemtableSize: testkit.SmallMemtable, Durability: stoat.Buffered,
		Compression: testkit.Compressions[l.rng.IntN(len(testkit.Compressions))],
		Filter:      "sign", Filters: []stoat.Filter{SignFilter{}},
	})
	if err != nil {
		return err
	}
	defer func() {
		for _, h := range l.open {
			h.tx.Discard()
		}
		err = errors.Join(err, l.db.Close())
	}()
	for i := range filteredLife {
		if err = l.step(i); err != nil {
			return fmt.Errorf("filtered life %d, step %d: %w", seed, i, err)
		}
	}
	return nil
}

func (l *filtered) step(i int) error {
	if err := l.write(); err != nil {
		return err
	}
	switch l.rng.IntN(40) {
	case 0, 1:
		if err := l.db.Compact(context.Background(), stoat.CompactOptions{}); err != nil {
			return err
		}
	case 2:
		return l.hold()
	case 3:
		return l.release()
	}
	if i%20 > 0 {
		return nil
	}
	return l.db.View(func(tx stoat.Txn) error {
		_, err := l.look(tx)
		return err
	})
}

// write commits a few writes. Some keys are never written again by the second half.
func (l *filtered) write() error {
	var writes []model.Write
	used := map[string]bool{}
	for range 1 + l.rng.IntN(5) {
		w := model.Write{Key: fmt.Sprintf("%03d", l.rng.IntN(60))}
		if used[w.Key] {
			continue
		}
		used[w.Key] = true
		l.values++
		sign := []string{"drop", "edit", "keep", "keep"}[l.rng.IntN(4)]
		w.User, w.ExpiresAt = byte(l.rng.IntN(3)), l.rng.Uint64N(2)*farAway
		w.Value = fmt.Sprintf("%s %d%s", sign, l.values, strings.Repeat(".", l.rng.IntN(2)*l.rng.IntN(3000)))
		if l.rng.IntN(6) == 0 {
			w.Version = model.Version{Deleted: true}
		}
		writes = append(writes, w)
	}
	return commitAll(l.db, l.m, writes)
}

// commitAll commits writes to the database and to the map.
func commitAll(db *stoat.DB, m *model.Map, writes []model.Write) error {
	m.Commit(writes)
	return db.Update(func(tx stoat.Txn) error {
		for _, w := range writes {
			if err := testkit.Put(tx, w); err != nil {
				return err
			}
		}
		return nil
	})
}

// look reads everything, by iterator and by key, and returns it.
func (l *filtered) look(tx stoat.Txn) (map[string]string, error) {
	seen := map[string]string{}
	items, err := testkit.ScanAll(tx, stoat.IterOptions{})
	if err != nil {
		return nil, err
	}
	for _, it := range items {
		seen[it.Key] = it.Value
		if want, live := l.m.Get(it.Key, tx.ReadVersion(), 0); live && (it.User != want.User || it.ExpiresAt != want.ExpiresAt) {
			return nil, fmt.Errorf("key %s has the byte %d and expires at %d, want %d and %d", it.Key, it.User, it.ExpiresAt, want.User, want.ExpiresAt)
		}
	}
	for _, key := range l.m.Keys() {
		got, found := seen[key]
		value, err := tx.Get([]byte(key))
		if err != nil && !errors.Is(err, stoat.ErrNotFound) || (err == nil) != found || string(value) != got {
			return nil, fmt.Errorf("get %s: %.20q, %v, an iterator shows %.20q", key, value, err, got)
		}
		want, live := l.m.Get(key, tx.ReadVersion(), 0)
		switch {
		case !found && !live, found && live && got == want.Value:
		case live && !found && strings.HasPrefix(want.Value, "drop"):
		case live && found && strings.HasPrefix(want.Value, "edit") && got == "done"+want.Value[4:]:
		default:
			return nil, fmt.Errorf("key %s shows %.20q, found %v, want %.20q or what the filter makes of it", key, got, found, want.Value)
		}
	}
	return seen, nil
}

// hold begins a transaction that stays open.
func (l *filtered) hold() error {
	if len(l.open) >= 4 {
		return nil
	}
	tx, err := l.db.Begin(stoat.ReadOnly)
	if err != nil {
		return err
	}
	seen, err := l.look(tx)
	l.open = append(l.open, heldView{tx, seen})
	return err
}

// release ends a transaction, which must see what it saw at first.
func (l *filtered) release() error {
	if len(l.open) == 0 {
		return nil
	}
	h := l.open[0]
	l.open = l.open[1:]
	defer h.tx.Discard()
	seen, err := l.look(h.tx)
	if err != nil {
		return err
	}
	for key, value := range h.seen {
		if seen[key] != value {
			return fmt.Errorf("key %s changed in an open transaction from %.20q to %.20q", key, value, seen[key])
		}
	}
	if len(seen) != len(h.seen) {
		return fmt.Errorf("an open transaction sees %d keys, and saw %d", len(seen), len(h.seen))
	}
	return nil
}
