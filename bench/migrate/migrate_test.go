package migrate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/dgraph-io/badger/v4"
	"go.etcd.io/bbolt"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/bench/migrate"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens an empty database in memory. Its DefaultTTL must not reach copied values.
func open(t *testing.T) *stoat.DB {
	t.Helper()
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.NewVolatile(), DefaultTTL: time.Hour})
	must(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// sample is what each test copies: small, empty and large values.
func sample() map[string]string {
	all := map[string]string{}
	for i := range 3000 {
		all[fmt.Sprintf("key %d", i)] = strings.Repeat(fmt.Sprint(i), i%500)
	}
	all["large"] = strings.Repeat("large ", 50_000)
	return all
}

// compare fails the test if the keyspace does not have exactly want.
func compare(t *testing.T, db *stoat.DB, keyspace string, want map[string]string) {
	t.Helper()
	var ks *stoat.Keyspace
	if keyspace != "" {
		var err error
		ks, err = db.Keyspace(keyspace, nil)
		must(t, err)
	}
	got := map[string]string{}
	must(t, db.View(func(tx stoat.Txn) error {
		for k, v := range tx.In(ks).All() {
			got[string(k)] = string(v)
		}
		return tx.Err()
	}))
	if !maps.Equal(got, want) {
		t.Errorf("keyspace %q has %d keys, want %d, or other values", keyspace, len(got), len(want))
	}
}

func TestFromBadger(t *testing.T) {
	t.Parallel()
	src, err := badger.Open(badger.DefaultOptions(t.TempDir()).WithLogger(nil).WithValueThreshold(1 << 10))
	must(t, err)
	defer src.Close()
	want := sample()
	batch := src.NewWriteBatch()
	for k, v := range want {
		must(t, batch.Set([]byte(k), []byte(v)))
	}
	must(t, batch.Set([]byte("deleted"), nil))
	must(t, batch.Flush())
	expiry := time.Now().Add(48 * time.Hour).Truncate(time.Second)
	must(t, src.Update(func(txn *badger.Txn) error {
		return errors.Join(txn.Delete([]byte("deleted")),
			txn.SetEntry(&badger.Entry{Key: []byte("expires"), Value: []byte("v"), ExpiresAt: uint64(expiry.Unix()), UserMeta: 7}))
	}))
	want["expires"] = "v"

	db := open(t)
	must(t, migrate.FromBadger(context.Background(), db, src))
	compare(t, db, "", want)
	must(t, db.View(func(tx stoat.Txn) error {
		item, err := tx.GetItem([]byte("expires"))
		if err != nil {
			return err
		}
		if !item.ExpiresAt().Equal(expiry) || item.UserMeta() != 7 {
			t.Errorf("expires at %v with metadata %d, want %v and 7", item.ExpiresAt(), item.UserMeta(), expiry)
		}
		item, err = tx.GetItem([]byte("large"))
		if err == nil && !item.ExpiresAt().IsZero() {
			t.Errorf("a value that never expired in Badger expires at %v", item.ExpiresAt())
		}
		return err
	}))
}

func TestFromBbolt(t *testing.T) {
	t.Parallel()
	src, err := bbolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, nil)
	must(t, err)
	defer src.Close()
	want, inner := sample(), map[string]string{"one": "1", "none": ""}
	must(t, src.Update(func(tx *bbolt.Tx) error {
		outer, err := tx.CreateBucket([]byte("outer"))
		if err != nil {
			return err
		}
		for k, v := range want {
			err = errors.Join(err, outer.Put([]byte(k), []byte(v)))
		}
		nested, err2 := outer.CreateBucket([]byte("inner"))
		if err = errors.Join(err, err2); err != nil {
			return err
		}
		for k, v := range inner {
			err = errors.Join(err, nested.Put([]byte(k), []byte(v)))
		}
		_, err2 = tx.CreateBucket([]byte("empty"))
		return errors.Join(err, err2)
	}))

	db := open(t)
	must(t, migrate.FromBbolt(context.Background(), db, src))
	compare(t, db, "outer", want)
	compare(t, db, "outer/inner", inner)
	all, err := db.Keyspaces()
	must(t, err)
	if len(all) != 4 { // with the default keyspace
		t.Errorf("%d keyspaces: %v", len(all), all)
	}
}

func TestFromPebble(t *testing.T) {
	t.Parallel()
	src, err := pebble.Open(t.TempDir(), &pebble.Options{Logger: quiet{}})
	must(t, err)
	defer src.Close()
	want := sample()
	batch := src.NewBatch()
	for k, v := range want {
		must(t, batch.Set([]byte(k), []byte(v), nil))
	}
	must(t, batch.Set([]byte("deleted"), nil, nil))
	must(t, batch.Delete([]byte("deleted"), nil))
	must(t, batch.Commit(pebble.Sync))

	db := open(t)
	must(t, migrate.FromPebble(context.Background(), db, src))
	compare(t, db, "", want)
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func TestFromBbolt_RefusesNamesThatAreNoKeyspace(t *testing.T) {
	t.Parallel()
	src, err := bbolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, nil)
	must(t, err)
	defer src.Close()
	must(t, src.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("\xff"))
		return err
	}))
	if err := migrate.FromBbolt(context.Background(), open(t), src); !errors.Is(err, stoat.ErrInvalid) {
		t.Errorf("error %v, want ErrInvalid", err)
	}
}

// The guide shows the functions of this package as they are.
func TestGuideShowsTheseFunctions(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/migrating.md")
	must(t, err)
	source, err := os.ReadFile("migrate.go")
	must(t, err)
	blocks := 0
	for i, part := range bytes.Split(guide, []byte("```")) {
		code, isGo := bytes.CutPrefix(part, []byte("go\n"))
		if i%2 == 0 || !isGo {
			continue
		}
		blocks++
		if !bytes.Contains(source, code) {
			t.Errorf("migrate.go does not have this part of the guide:\n%s", code)
		}
	}
	if blocks != 3 {
		t.Errorf("the guide has %d programs, want 3", blocks)
	}
}
