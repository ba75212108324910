package kill

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// Writes are what one transaction writes.
type Writes struct {
	home    []model.Write // to the default keyspace
	apart   []model.Write // to the keyspace apart
	stamped []version     // to the keyspace with timestamps
	// own are the writes to the keyspace that only the writer uses.
	own    []model.Write
	writer uint64
	// drops says that the writer drops its keyspace before.
	drops bool
	// batch says that a batch commits the writes.
	batch bool
	// ingest says that home is an ingest, and all there is.
	ingest bool
}

// The keyspaces of a database beside those of the writers. Every transaction writes
// newestKey to the mirror and to the default keyspace.
const (
	mirrorName  = "mirror, " + testkit.Sentinel
	apartName   = "apart, " + testkit.Sentinel
	stampedName = "stamped, " + testkit.Sentinel

	newestKey = "newest"
)

// ownName is the name of a writer's keyspace.
func ownName(writer uint64) string { return fmt.Sprintf("of writer %d, %s", writer, testkit.Sentinel) }

// keySpan is the number of keys that all writers share.
const keySpan = 300

// plan makes what the transaction writes. drops says whether it may drop a keyspace.
func (id WorkID) plan(seed uint64, drops bool) Writes {
	rng := rand.New(rand.NewPCG(seed<<20+id.Life, id.Writer<<32+id.N))
	w := Writes{writer: id.Writer}
	switch rng.IntN(40) {
	case 0: // larger than the smallest memtable
		for range 4 {
			w.home = append(w.home, testkit.SetKey(rng.IntN(keySpan), testkit.RandomValue(rng, 1)+strings.Repeat("L", 20<<10)))
		}
	case 1, 2:
		w.home = testkit.RandomBatch(rng, 40, 200)
	case 3, 4:
		w.home = append(w.home, testkit.SetKey(rng.IntN(keySpan), testkit.RandomValue(rng, 30<<10)))
	default:
		for range rng.IntN(6) {
			w.home = append(w.home, testkit.SetKey(rng.IntN(keySpan), testkit.RandomValue(rng, 120)))
		}
	}
	for i := range w.home {
		vary(&w.home[i].Version, rng)
	}
	marker := model.Write{Key: markerKey(id.Writer), Version: model.Version{Value: id.String()}}
	if id.N%16 == 5 {
		w.home, w.ingest = testkit.Ingestible(append(w.home, marker)), true
		return w
	}
	w.home = append(w.home, stepsOn(w.home, rng)...)
	w.home = append(w.home, model.Write{Key: newestKey}, marker)
	w.elsewhere(rng, id.Life)
	if w.batch = id.N%4 == 0; w.batch {
		w.stamped = nil
	} else if drops && rng.IntN(4) == 0 {
		w.drops = rng.IntN(6) == 0
		w.own = testkit.RandomBatch(rng, 6, 300)
	}
	return w
}

// elsewhere draws writes to the keyspace apart and to the one with timestamps.
func (w *Writes) elsewhere(rng *rand.Rand, life uint64) {
	if rng.IntN(3) == 0 {
		w.apart = testkit.MergeBatch(rng, 8, 300)
		vary(&w.apart[0].Version, rng)
	}
	for range rng.IntN(4) * rng.IntN(2) {
		w.stamped = append(w.stamped, randomVersion(rng, life))
	}
}

// stepsOn draws merges and renewals of some keys that are not in writes, whose order in
// a transaction would matter.
func stepsOn(writes []model.Write, rng *rand.Rand) (steps []model.Write) {
	taken := make(map[string]bool)
	for _, w := range writes {
		taken[w.Key] = true
	}
	for range rng.IntN(3) {
		key := testkit.SetKey(rng.IntN(keySpan), "").Key
		if made := testkit.RandomSteps(rng, 60); !taken[key] {
			steps, taken[key] = append(steps, testkit.StepKey(key, made...)), true
		}
	}
	return steps
}

// vary makes some versions deletions, some of limited life, some marked.
func vary(v *model.Version, rng *rand.Rand) {
	switch rng.IntN(12) {
	case 0, 1:
		*v = model.Version{Deleted: true}
	case 2:
		v.ExpiresAt = testkit.Past
	case 3:
		v.ExpiresAt = testkit.Future
	case 4:
		v.User = byte(1 + rng.IntN(255))
	}
}

// recoveredWrites draws what is written after a recovery.
func recoveredWrites(rng *rand.Rand, life uint64) Writes {
	w := Writes{home: append(testkit.MergeBatch(rng, 4, 300), model.Write{Key: newestKey})}
	w.elsewhere(rng, life+1)
	return w
}

// spaces are the keyspaces of a database.
type spaces struct{ mirror, apart, stamped *stoat.Keyspace }

// spacesOf opens the keyspaces. The first call creates them.
func spacesOf(db *stoat.DB) (s spaces, err error) {
	var errs [3]error
	s.mirror, errs[0] = db.Keyspace(mirrorName, nil)
	s.apart, errs[1] = db.Keyspace(apartName, &stoat.KeyspaceOptions{MergeFunction: testkit.MergeFunction})
	s.stamped, errs[2] = db.Keyspace(stampedName, &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked})
	return s, errors.Join(errs[:]...)
}

// CommitWrites writes and commits one transaction to all keyspaces, or one ingest.
func CommitWrites(db *stoat.DB, w Writes, d stoat.Durability) (version uint64, err error) {
	if w.ingest {
		return testkit.Ingest(db, nil, testkit.Ingestible(w.home))
	}
	ks, err := spacesOf(db)
	if err != nil {
		return 0, err
	}
	if w.batch {
		return commitBatch(db, ks, w, d)
	}
	tx, err := db.Begin(stoat.ReadWrite)
	if err != nil {
		return 0, err
	}
	defer tx.Discard()
	if w.own != nil {
		own, err := db.Keyspace(ownName(w.writer), nil)
		if err != nil {
			return 0, err
		}
		if err := testkit.PutAll(tx.In(own), w.own); err != nil {
			return 0, err
		}
	}
	err = errors.Join(testkit.PutAll(tx, w.home), testkit.PutAll(tx.In(ks.apart), w.apart),
		tx.In(ks.mirror).Set([]byte(newestKey), nil), putVersions(tx.In(ks.stamped), w.stamped))
	if err != nil {
		return 0, err
	}
	if err := tx.Commit(stoat.WithDurability(d)); err != nil {
		return 0, err
	}
	return tx.CommitVersion(), nil
}

// commitBatch is CommitWrites with a batch.
func commitBatch(db *stoat.DB, ks spaces, w Writes, d stoat.Durability) (version uint64, err error) {
	b := db.NewBatch(stoat.BatchOptions{Size: 1 << 20})
	defer b.Discard()
	err = errors.Join(testkit.PutAll(b, w.home), testkit.PutAll(b.In(ks.apart), w.apart),
		b.In(ks.mirror).Set([]byte(newestKey), nil))
	if err == nil {
		err = b.Commit(stoat.WithDurability(d))
	}
	return b.CommitVersion(), err
}

// dropOwn drops the keyspace of a writer, if it exists.
func dropOwn(db *stoat.DB, writer uint64) error {
	exists, err := existsOwn(db, writer)
	if err != nil || !exists {
		return err
	}
	return db.DropKeyspace(ownName(writer))
}

func existsOwn(db *stoat.DB, writer uint64) (bool, error) {
	all, err := db.Keyspaces()
	for _, k := range all {
		if k.Name == ownName(writer) {
			return true, nil
		}
	}
	return false, err
}

// checkMirror demands that the newest commit that tx sees has written to both
// keyspaces.
func checkMirror(db *stoat.DB, tx stoat.Txn) error {
	ks, err := spacesOf(db)
	if err != nil {
		return err
	}
	var versions [2]uint64
	for i, in := range []stoat.Txn{tx, tx.In(ks.mirror)} {
		item, err := in.GetItem([]byte(newestKey))
		if err != nil && !errors.Is(err, stoat.ErrNotFound) {
			return err
		}
		if err == nil {
			versions[i] = item.Version()
		}
	}
	if versions[0] != versions[1] {
		return fmt.Errorf("commit %d is the newest, but %d in the mirror", versions[0], versions[1])
	}
	return nil
}

// expiry returns the option for a time in ms since 1970.
func expiry(ms uint64) stoat.SetOption { return stoat.ExpiresAt(time.UnixMilli(int64(ms))) }
