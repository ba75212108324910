package testkit

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// TestSentinel_IsInEachKindOfFileOfAPlainDatabase shows that the search would find what
// encryption did not hide.
func TestSentinel_IsInEachKindOfFileOfAPlainDatabase(t *testing.T) {
	t.Parallel()
	for _, encrypted := range []bool{false, true} {
		disk := memfs.New()
		db := OpenOn(t, disk, func(o *stoat.Options) { *o = Merging(*o); o.Keys = KeysIf(encrypted) })
		ks, err := db.Keyspace("a keyspace with the "+Sentinel, nil)
		Must(t, err)
		rng := rand.New(rand.NewPCG(1, 1))
		for range 40 {
			Must(t, db.Update(func(tx stoat.Txn) error {
				return errors.Join(PutAll(tx, MergeBatch(rng, 40, 5000)), PutAll(tx.In(ks), RandomBatch(rng, 40, 100)))
			}))
		}
		Must(t, WaitForFlushes(db))
		found := map[string]bool{}
		for name, content := range FilesOf(t, disk.Clone(), Dir) {
			if strings.Contains(content, Sentinel) {
				found[name[strings.LastIndexByte(name, '.')+1:]] = true
			}
		}
		Must(t, db.Close())
		if got, want := len(found), 4; !encrypted && got != want {
			t.Errorf("the sentinel is in %v, want the manifest, a log, a table and a value file", found)
		}
		err = NoSentinel(disk, Dir)
		if (err == nil) != encrypted || encrypted && len(found) > 0 {
			t.Errorf("encrypted %v: %q in %v: %v", encrypted, Sentinel, found, err)
		}
	}
}
