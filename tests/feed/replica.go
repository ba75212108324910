package feed

import (
	"fmt"
	"maps"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/testing/model"
)

// tail is the merge function of the databases.
var tail = model.Tail{Keep: 50}

// A replica is a copy of the database that is made of the changes.
type replica struct {
	version uint64
	values  map[string]string // by the name of the keyspace, a slash and the key
}

// apply does what a change says.
func (r *replica) apply(c *feed.Change) {
	key := c.Keyspace + "/" + string(c.Key)
	switch c.Kind {
	case feed.Set:
		r.values[key] = string(c.Value)
	case feed.Delete:
		delete(r.values, key)
	case feed.Merge:
		r.values[key] = tail.Join(r.values[key], string(c.Value))
	case feed.DropKeyspace:
		maps.DeleteFunc(r.values, func(k, _ string) bool { return strings.HasPrefix(k, otherName+"/") })
	case feed.DeleteRange:
		end := c.Keyspace + "/" + string(c.End)
		if c.End == nil {
			end = c.Keyspace + "0" // after the slash
		}
		for k := range r.values {
			if k >= key && k < end {
				delete(r.values, k)
			}
		}
	}
}

// compare compares the replica with what the database has at its version.
func (r *replica) compare(db *stoat.DB, other *stoat.Keyspace) error {
	return db.View(func(tx stoat.Txn) error {
		if tx.ReadVersion() != r.version {
			return fmt.Errorf("the database is at version %d, the replica at %d", tx.ReadVersion(), r.version)
		}
		n := 0
		for name, in := range map[string]stoat.Txn{"/": tx, "other/": tx.In(other)} {
			it := in.Iterator(stoat.IterOptions{})
			for it.Next() {
				n++
				value, err := it.Item().Value()
				if err != nil {
					it.Close()
					return err
				}
				if got, ok := r.values[name+string(it.Key())]; !ok || got != string(value) {
					it.Close()
					return fmt.Errorf("version %d, key %s%q: the replica has %.40q (%v), the database %.40q", r.version, name, it.Key(), got, ok, value)
				}
			}
			if err := it.Err(); err != nil {
				return err
			}
			it.Close()
		}
		if n != len(r.values) {
			return fmt.Errorf("version %d: the replica has %d keys, the database %d", r.version, len(r.values), n)
		}
		return nil
	})
}
