package behaviour

import (
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

func TestMisuse_OfAnIteratorDoesNotFailTheCommit(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	ks := timed(t, db)
	dropped, err := db.Keyspace("dropped", nil)
	testkit.Must(t, err)
	testkit.Must(t, db.DropKeyspace("dropped"))
	for name, read := range map[string]func(tx stoat.Txn) error{
		"Get":      func(tx stoat.Txn) error { _, err := tx.In(ks).Get([]byte("k")); return err },
		"Iterator": func(tx stoat.Txn) error { it := tx.In(ks).Iterator(stoat.IterOptions{}); return it.Close() },
		"Get in a dropped keyspace": func(tx stoat.Txn) error {
			_, err := tx.In(dropped).Get([]byte("k"))
			return err
		},
		"Loop in a dropped keyspace": func(tx stoat.Txn) error {
			for range tx.In(dropped).All() {
			}
			return tx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := db.Update(func(tx stoat.Txn) error {
				if err := read(tx); err == nil {
					t.Error("no error")
				}
				return tx.Set([]byte("other"), nil)
			}); err != nil {
				t.Errorf("Update: %v", err)
			}
		})
	}
}
