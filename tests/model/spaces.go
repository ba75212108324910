package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A run lives in one keyspace: the default keyspace, or one between two others. The
// model knows only the keys of that keyspace. Its neighbours hold guards that never
// change. Some commits also write to a keyspace that mirrors the newest of them. So an
// iterator that leaves its keyspace, and a commit that is not whole, are noticed.

// homes are the keyspaces in which runs live. "" is the default keyspace.
var homes = []string{"", "home, " + testkit.Sentinel}

// spaceKinds are the operations on keyspaces.
var spaceKinds = []opKind{
	{"drop a keyspace", 3, opDropKeyspace},
}

// spaces are the keyspaces of a run.
type spaces struct {
	home, before, after, mirror *stoat.Keyspace
	// marks are the commits that wrote to mirror, ascending, with what they wrote.
	marks []mark
}

type mark struct {
	seq   uint64
	value string
}

// guardKeys are the first and the last keys of a keyspace, and some between.
var guardKeys = []string{"\x00", "a guard", "\xfe\xff", "\xff\xff\xff\xff\xff\xff\xff\xff\xff guard"}

// in returns tx in the keyspace of the run.
func (r *Run) in(tx stoat.Txn) stoat.Txn { return tx.In(r.spaces.home) }

// openSpaces opens the keyspaces of the run, in the order of their numbers.
func (r *Run) openSpaces() error {
	if !r.spaced {
		return nil
	}
	s := &r.spaces
	for i := range r.fillers { // so that the numbers of the others are longer
		if _, err := r.DB.Keyspace(fmt.Sprint("filler ", i), nil); err != nil {
			return err
		}
	}
	var errs [4]error
	s.before, errs[0] = r.DB.Keyspace("before", nil)
	if r.home != "" {
		s.home, errs[1] = r.DB.Keyspace(r.home, &stoat.KeyspaceOptions{NumVersions: r.Model.Versions, Compression: r.Opts.Compression, MergeFunction: r.tail.Name()})
	}
	s.after, errs[2] = r.DB.Keyspace("after", nil)
	s.mirror, errs[3] = r.DB.Keyspace("mirror, "+testkit.Sentinel, nil)
	return errors.Join(errs[:]...)
}

// guarded returns the keyspaces that hold guards.
func (r *Run) guarded() []*stoat.Keyspace {
	if !r.spaced {
		return nil
	}
	all := []*stoat.Keyspace{r.spaces.before, r.spaces.after}
	if r.home != "" {
		all = append(all, nil)
	}
	return all
}

// setGuards writes the guards.
func (r *Run) setGuards() error {
	if !r.spaced {
		return nil
	}
	err := r.DB.Update(func(tx stoat.Txn) error {
		for _, ks := range r.guarded() {
			for _, key := range guardKeys {
				if err := tx.In(ks).Set([]byte(key), []byte("guard")); err != nil {
					return err
				}
			}
		}
		return nil
	}, stoat.WithDurability(stoat.Synced))
	r.noteElsewhere(true)
	return err
}

// noteElsewhere notes a commit that wrote only to other keyspaces.
func (r *Run) noteElsewhere(durable bool) {
	if r.known = r.Model.Commit(nil); durable {
		r.durable = r.known
	}
}

// mark writes to the mirror in some transactions, and returns what it has written.
func (r *Run) mark(p *Pair) (string, error) {
	if !r.spaced || !p.model.Dirty() || p.name%3 != 0 {
		return "", nil
	}
	value := fmt.Sprint("t", p.name)
	return value, p.Tx.In(r.spaces.mirror).Set([]byte("last"), []byte(value))
}

// verifySpaces compares the other keyspaces with what they should hold.
func (r *Run) verifySpaces(tx stoat.Txn) error {
	for _, ks := range r.guarded() {
		var got []string
		for key, value := range tx.In(ks).All() {
			if string(value) == "guard" {
				got = append(got, string(key))
			}
		}
		if !slices.Equal(got, guardKeys) || tx.Err() != nil {
			return fmt.Errorf("another keyspace has the guards %q: %w", got, tx.Err())
		}
	}
	if !r.spaced {
		return nil
	}
	want := ""
	for _, m := range r.spaces.marks {
		if m.seq <= tx.ReadVersion() {
			want = m.value
		}
	}
	value, err := tx.In(r.spaces.mirror).Get([]byte("last"))
	if err != nil && !(want == "" && errors.Is(err, stoat.ErrNotFound)) || string(value) != want {
		return fmt.Errorf("the mirror has %q, error %v, want %q", value, err, want)
	}
	return nil
}

// truncateMarks forgets what commits after version wrote to the mirror.
func (r *Run) truncateMarks(version uint64) {
	r.spaces.marks = slices.DeleteFunc(r.spaces.marks, func(m mark) bool { return m.seq > version })
}

// opDropKeyspace creates a keyspace, writes to it and drops it. A transaction that
// wants to write to it must fail, and a new keyspace of that name must be empty.
func opDropKeyspace(r *Run, rng *rand.Rand) error {
	if !r.spaced {
		return nil
	}
	if err := r.settle(); err != nil {
		return err
	}
	r.say("drop a keyspace at %d", r.Model.Last())
	victim, err := r.DB.Keyspace("victim", &stoat.KeyspaceOptions{NumVersions: 1 + rng.IntN(3)})
	if err != nil {
		return err
	}
	set := func(tx stoat.Txn) error {
		for range rng.IntN(50) {
			if err := tx.In(victim).Set([]byte(r.keys.near(rng)), []byte(r.value(rng).Value)); err != nil {
				return err
			}
		}
		return tx.In(victim).Set([]byte("k"), []byte("v"))
	}
	if err := r.DB.Update(set); err != nil {
		return fmt.Errorf("update: %w", err)
	}
	r.noteElsewhere(r.Opts.Durability == stoat.Synced)
	late, err := r.DB.Begin(stoat.ReadWrite)
	if err != nil {
		return err
	}
	defer late.Discard()
	if err := set(late); err != nil {
		return err
	}
	if err := r.DB.DropKeyspace("victim"); err != nil {
		return err
	}
	r.noteElsewhere(true)
	if ok, err := late.In(victim).Has([]byte("k")); !ok || err != nil {
		return fmt.Errorf("an older transaction sees its own write: %v, %v", ok, err)
	}
	if err := late.Commit(); !errors.Is(err, stoat.ErrNoKeyspace) {
		return fmt.Errorf("commit into a dropped keyspace: %v, want ErrNoKeyspace", err)
	}
	if victim, err = r.DB.Keyspace("victim", nil); err != nil {
		return err
	}
	return r.DB.View(func(tx stoat.Txn) error {
		it := tx.In(victim).Iterator(stoat.IterOptions{AllVersions: true})
		defer it.Close()
		if it.First() {
			return fmt.Errorf("a new keyspace has the key %q", it.Key())
		}
		return it.Err()
	})
}

// RunDrops drops keyspaces of a few megabytes and demands that their space returns and
// nothing else changes. This holds whether or not the database is opened anew meanwhile.
func RunDrops(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 0xd0b))
	o := stoat.Options{FS: memfs.New(), MemtableSize: testkit.SmallMemtable}
	db, err := stoat.Open(testkit.Dir, &o)
	if err != nil {
		return err
	}
	err = func() error {
		for i := range 3 {
			ks, err := db.Keyspace(fmt.Sprint(i), nil)
			if err != nil {
				return err
			}
			for n := range 20 {
				value := make([]byte, 100+rng.IntN(2000))
				if err := db.Update(func(tx stoat.Txn) error {
					for j := range 20 {
						if err := tx.In(ks).Set(fmt.Append(nil, n, j), value); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					return err
				}
			}
		}
		if err := db.Compact(context.Background(), stoat.CompactOptions{}); err != nil {
			return err
		}
		if err := dropInStream(db); err != nil {
			return err
		}
		if rng.IntN(2) == 0 {
			if err := db.Close(); err != nil {
				return err
			}
			if db, err = stoat.Open(testkit.Dir, &o); err != nil {
				return err
			}
		}
		return awaitFree(db)
	}()
	return errors.Join(err, db.Close())
}

// dropInStream drops the keyspaces of RunDrops while a stream reads them. It demands that
// the stream sees all of their keys and leaves the keyspaces dropped.
func dropInStream(db *stoat.DB) error {
	keys := 0
	_, err := db.Stream(context.Background(), stoat.StreamOptions{AllKeyspaces: true}, func(b *stoat.StreamBatch) error {
		for i := 0; keys == 0 && i < 3; i++ {
			if err := db.DropKeyspace(fmt.Sprint(i)); err != nil {
				return err
			}
		}
		keys += len(b.Items)
		return nil
	})
	if err != nil {
		return err
	}
	left, err := db.Keyspaces()
	if err == nil && (keys != 3*20*20 || len(left) != 1) {
		err = fmt.Errorf("a stream beside drops has %d keys, and leaves %d keyspaces", keys, len(left))
	}
	return err
}

// awaitFree waits until tables and value files hold nothing, and checks the database.
func awaitFree(db *stoat.DB) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := db.Check(context.Background(), stoat.CheckOptions{}); err != nil {
			return err
		}
		s := db.Stats()
		if s.TableContent+s.ValueBytes == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("dropped keyspaces still hold %d bytes", s.TableContent+s.ValueBytes)
		}
	}
}
