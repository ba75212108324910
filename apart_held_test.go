package stoat

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/vfs/memfs"
)

// setApart commits ten values that a file of their own is written for.
func setApart(t *testing.T, db *DB) {
	t.Helper()
	if err := db.Update(func(tx *Txn) error {
		for i := range 10 {
			if err := tx.Set(fmt.Appendf(nil, "k%d", i), make([]byte, 64<<10)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// mustFlush flushes what is in memory.
func mustFlush(t *testing.T, db *DB) {
	t.Helper()
	if err := db.rotate(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.flushNext(); err != nil {
		t.Fatal(err)
	}
}

func openApart(t *testing.T) *DB {
	t.Helper()
	return openStillWith(t, &Options{FS: memfs.New(), MemtableSize: 1 << 20})
}

// What is to be collected is chosen by a state that others may have left behind
// already. By the state before a flush nothing in the file is live, and it is held;
// that somebody has looked at the one after the flush changes nothing about that.
func TestAFileWrittenApartIsHeldForWhoeverLooksAtTheStateBeforeTheFlush(t *testing.T) {
	t.Parallel()
	db := openApart(t)
	setApart(t, db)
	before := db.manifest.State()
	mustFlush(t, db)
	after := db.manifest.State()
	if len(before.Version.Values) != 1 {
		t.Fatalf("%d value files", len(before.Version.Values))
	}
	f := before.Version.Values[0]
	for range 2 {
		if db.valuesHeld(f.ValueFile, after.FlushedSeq) {
			t.Error("the file is held although tables tell what is live")
		}
		if f.Live == 0 && !db.valuesHeld(f.ValueFile, before.FlushedSeq) {
			t.Error("the file would be dropped")
		}
	}
}

func TestAFileWrittenApartIsForgottenWhenItIsDropped(t *testing.T) {
	t.Parallel()
	db := openApart(t)
	setApart(t, db)
	if err := db.Update(func(tx *Txn) error { return tx.DeleteRange(nil, nil) }); err != nil {
		t.Fatal(err)
	}
	mustFlush(t, db)
	if err := db.Compact(t.Context(), CompactOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := db.Stats().Values; n != 0 {
		t.Fatalf("%d value files", n)
	}
	if n := len(db.apart.files); n != 0 {
		t.Errorf("%d files are remembered", n)
	}
}

func TestStatsCountNoGarbageOfWhatOnlyMemtablesReferTo(t *testing.T) {
	t.Parallel()
	db := openApart(t)
	setApart(t, db)
	if s := db.Stats(); s.ValueBytes == 0 || s.ValueGarbage != 0 {
		t.Errorf("of %d bytes that were committed just now %d are garbage", s.ValueBytes, s.ValueGarbage)
	}
	setApart(t, db)
	mustFlush(t, db)
	if s := db.Stats(); s.ValueGarbage < s.ValueBytes/3 {
		t.Errorf("of %d bytes, half of which were overwritten, %d are garbage", s.ValueBytes, s.ValueGarbage)
	}
}
