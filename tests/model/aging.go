package model

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const (
	// agingLife is the number of steps of a life.
	agingLife = 300
	// agingDataKeys is the age at which a data key is replaced.
	agingDataKeys = time.Minute
)

// An aged is a value and the time when it expires, 0 for never.
type aged struct {
	value   string
	expires int64 // milliseconds of Unix time
}

// An agingSpace is a keyspace with a default time to live, and what it should have.
type agingSpace struct {
	name string
	ttl  time.Duration // 0 means forever
	ks   *stoat.Keyspace
	has  map[string]aged
}

// An aging is the life of an encrypted database while the time passes: values expire by
// the default of their keyspace, and keys of the encryption are replaced.
type aging struct {
	rng   *rand.Rand
	disk  *memfs.FS
	clock *testkit.Clock
	db    *stoat.DB
	keys  testkit.TurningKeys
	// master is the number of the current master key.
	master int
	size   int // of KEYS
	// uses are the uses of files that were seen, by the salts of their keys. least was the
	// newest data key when the database was last closed.
	uses  map[string]bool
	least int

	spaces []*agingSpace
	values int
}

// RunAging plays a life.
func RunAging(seed uint64) (err error) {
	l := &aging{rng: rand.New(rand.NewPCG(seed, 0xa9e)), disk: memfs.New(), clock: testkit.NewClock(), uses: map[string]bool{}}
	l.keys.Turn(stoat.StaticKeys(testkit.NumberedKey(0)))
	for _, ttl := range []time.Duration{30 * time.Second, 10 * time.Second, 0} {
		l.spaces = append(l.spaces, &agingSpace{name: fmt.Sprintf("ttl %s", ttl), ttl: ttl, has: map[string]aged{}})
	}
	l.spaces[0].name = ""
	if err := l.open(); err != nil {
		return err
	}
	defer func() {
		if l.db != nil {
			err = errors.Join(err, l.db.Close())
		}
	}()
	for i := range agingLife {
		if err := l.step(); err != nil {
			return fmt.Errorf("aging life %d, step %d: %w", seed, i, err)
		}
	}
	return nil
}

// open opens the database. The first opening sets the defaults, which are stored.
func (l *aging) open() (err error) {
	o := &stoat.Options{FS: l.disk, Clock: l.clock, Keys: &l.keys, DataKeyAge: agingDataKeys,
		MemtableSize: testkit.SmallMemtable, Durability: stoat.Buffered}
	first := l.spaces[1].ks == nil
	if first {
		o.DefaultTTL = l.spaces[0].ttl
	}
	if l.db, err = stoat.Open(testkit.Dir, o); err != nil {
		return err
	}
	for _, s := range l.spaces[1:] {
		o := &stoat.KeyspaceOptions{DefaultTTL: s.ttl}
		if s.ttl == 0 {
			o.DefaultTTL = -1
		}
		if !first {
			o = nil
		}
		if s.ks, err = l.db.Keyspace(s.name, o); err != nil {
			return err
		}
	}
	if err := l.look(); err != nil {
		return err
	}
	return l.lookAtKeys()
}

// reopen closes the database and opens it again. While it is closed, no job has got a key
// for a file that it has not begun. So new files have at least the key that is now the newest.
func (l *aging) reopen() error {
	if err := l.db.Close(); err != nil {
		return err
	}
	if err := l.lookAtKeys(); err != nil {
		return err
	}
	b, err := testkit.ReadFile(l.disk, l.disk.Join(testkit.Dir, seal.KeysName))
	if err != nil {
		return err
	}
	info, err := seal.Inspect(b)
	if err != nil {
		return err
	}
	l.least = info.Count
	return l.open()
}

func (l *aging) step() error {
	switch l.rng.IntN(12) {
	case 0:
		return l.rotate()
	case 1:
		return l.replaceDataKey()
	case 2:
		return l.reopen()
	case 3, 4:
		l.clock.Ms.Add(l.rng.Int64N(12_000))
		return l.look()
	}
	return l.write()
}

// write commits a few values, with and without an expiry time of their own, in a
// transaction or in a batch.
func (l *aging) write() error {
	var all []func(to setter) error
	for range 1 + l.rng.IntN(4) {
		s := l.spaces[l.rng.IntN(len(l.spaces))]
		l.values++
		key, a := fmt.Sprintf("%02d", l.rng.IntN(40)), aged{value: fmt.Sprint(l.values)}
		if l.rng.IntN(4) == 0 { // to a value file
			a.value += testkit.Filled(l.rng.IntN(6000))
		}
		var opts []stoat.SetOption
		ttl := s.ttl
		if l.rng.IntN(4) == 0 {
			ttl = time.Duration(1+l.rng.IntN(40)) * time.Second
			opts = append(opts, stoat.TTL(ttl))
		}
		if ttl > 0 {
			a.expires = l.clock.Ms.Load() + ttl.Milliseconds()
		}
		s.has[key] = a
		all = append(all, func(to setter) error { return to(s.ks, []byte(key), []byte(a.value), opts) })
	}
	put := func(to setter) error {
		for _, do := range all {
			if err := do(to); err != nil {
				return err
			}
		}
		return nil
	}
	if l.rng.IntN(2) == 0 {
		return l.db.Update(func(tx stoat.Txn) error {
			return put(func(ks *stoat.Keyspace, key, value []byte, opts []stoat.SetOption) error {
				return tx.In(ks).Set(key, value, opts...)
			})
		})
	}
	b := l.db.NewBatch(stoat.BatchOptions{})
	defer b.Discard()
	err := put(func(ks *stoat.Keyspace, key, value []byte, opts []stoat.SetOption) error {
		return b.In(ks).Set(key, value, opts...)
	})
	if err != nil {
		return err
	}
	return b.Commit()
}

// A setter writes a value to a keyspace.
type setter func(ks *stoat.Keyspace, key, value []byte, opts []stoat.SetOption) error

// look compares all keyspaces with what they should have at this time.
func (l *aging) look() error {
	return l.db.View(func(tx stoat.Txn) error {
		for _, s := range l.spaces {
			left := 0
			for key, a := range s.has {
				live := a.expires == 0 || a.expires > l.clock.Ms.Load()
				value, err := tx.In(s.ks).Get([]byte(key))
				if err != nil && !errors.Is(err, stoat.ErrNotFound) || (err == nil) != live || live && string(value) != a.value {
					return fmt.Errorf("keyspace %q: key %s shows %.20q, %v, want %.20q until %d, and it is %d", s.name, key, value, err, a.value, a.expires, l.clock.Ms.Load())
				}
				if live {
					left++
				}
			}
			items, err := testkit.ScanAll(tx.In(s.ks), stoat.IterOptions{})
			if err != nil {
				return err
			}
			if len(items) != left {
				return fmt.Errorf("keyspace %q: an iterator shows %d keys, want %d", s.name, len(items), left)
			}
		}
		return nil
	})
}

// rotate makes the data keys belong to a new master key. Then the old one must open the
// database no longer.
func (l *aging) rotate() error {
	before := testkit.NumberedKey(l.master)
	l.master++
	l.keys.Turn(stoat.StaticKeys(testkit.NumberedKey(l.master), before))
	if err := l.db.RotateMasterKey(context.Background()); err != nil {
		return err
	}
	l.keys.Turn(stoat.StaticKeys(testkit.NumberedKey(l.master)))
	copied := l.disk.Clone()
	if err := l.db.Sync(); err != nil {
		return err
	}
	db, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: copied, Clock: l.clock, Keys: stoat.StaticKeys(before)})
	if err == nil {
		return errors.Join(errors.New("the old master key opens the database after its rotation"), db.Close())
	}
	if !errors.Is(err, stoat.ErrKey) {
		return fmt.Errorf("the old master key: %w", err)
	}
	return nil
}

// replaceDataKey writes new files once the newest data key is too old for them.
func (l *aging) replaceDataKey() error {
	if _, err := l.grown(); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); ; {
		l.clock.Ms.Add(agingDataKeys.Milliseconds())
		if err := l.write(); err != nil {
			return err
		}
		if err := l.db.Compact(context.Background(), stoat.CompactOptions{}); err != nil {
			return err
		}
		grown, err := l.awaitGrowth()
		if err != nil {
			return err
		}
		if grown {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("new files have a data key that is older than %s", agingDataKeys)
		}
	}
	if err := l.look(); err != nil {
		return err
	}
	return l.lookAtKeys()
}

// awaitGrowth waits a second for KEYS to get longer. A background job may be making the key,
// and Compact does not wait for it. On a slow machine, a job may have lost patience with the
// provider. Then it asks again once the clock has moved by a minute.
func (l *aging) awaitGrowth() (grown bool, err error) {
	for end := time.Now().Add(time.Second); !grown && err == nil && time.Now().Before(end); {
		if grown, err = l.grown(); !grown {
			time.Sleep(time.Millisecond)
		}
	}
	return grown, err
}

// lookAtKeys demands that no file has got a data key older than least. It looks at files of
// all kinds.
func (l *aging) lookAtKeys() error {
	names, err := l.disk.List(testkit.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		b, err := testkit.ReadFile(l.disk, l.disk.Join(testkit.Dir, name))
		if errors.Is(err, vfs.ErrNotExist) {
			continue // it was obsolete
		}
		if err != nil {
			return err
		}
		refs, err := keysOf(name, b)
		if err != nil {
			return err
		}
		for _, ref := range refs {
			if use := string(ref.Salt[:]); !l.uses[use] {
				l.uses[use] = true
				if int(ref.ID) < l.least {
					return fmt.Errorf("%s has data key %d, and key %d was the newest before its use", name, ref.ID, l.least)
				}
			}
		}
	}
	return nil
}

// keysOf returns the keys that a file names in its headers, or in its footer once it is
// complete.
func keysOf(name string, b []byte) (refs []base.KeyRef, err error) {
	_, isLog := log.ParseFileName(name)
	_, isManifest := manifest.ParseFileName(name)
	kind := record.TypeLog
	if isManifest {
		kind = record.TypeManifest
	}
	if isLog || isManifest {
		headers, err := record.ReadHeaders(bytes.NewReader(b), int64(len(b)), kind)
		for _, h := range headers {
			if h.Key.Sealed() {
				refs = append(refs, h.Key)
			}
		}
		return refs, err
	}
	_, isTable := base.ParseTableName(name)
	_, isValues := base.ParseValueName(name)
	const footer, magic = 88, "\xa7\xc3atseal"
	if (isTable || isValues) && len(b) > footer && bytes.HasPrefix(b[len(b)-footer:], []byte(magic)) {
		foot := b[len(b)-footer:]
		ref := base.KeyRef{ID: binary.LittleEndian.Uint32(foot[16:])}
		copy(ref.Salt[:], foot[24:])
		refs = append(refs, ref)
	}
	return refs, nil
}

// grown reports whether KEYS has got longer since the last call.
func (l *aging) grown() (bool, error) {
	b, err := testkit.ReadFile(l.disk, l.disk.Join(testkit.Dir, "KEYS"))
	was := l.size
	l.size = len(b)
	return l.size > was, err
}
