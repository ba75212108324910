package feed

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
)

// A ledger has what each version wrote.
type ledger struct {
	changes map[uint64][]feed.Change
	last    uint64          // the newest version
	dropped map[uint32]bool // the IDs of keyspaces that are gone
}

// compare compares what a feed with a filter has of a version. A feed may have the drop of
// a keyspace earlier, too, when it leaves out a change of it.
func (l *ledger) compare(version uint64, changes []feed.Change, o *feed.Options) error {
	isDrop := func(c feed.Change) bool { return c.Kind == feed.DropKeyspace }
	for _, c := range l.changes[version] {
		same := func(o feed.Change) bool { return isDrop(o) && o.KeyspaceID == c.KeyspaceID }
		if isDrop(c) && within(&c, o) && !slices.ContainsFunc(changes, same) {
			return fmt.Errorf("version %d drops the keyspace %d, and the feed does not have that", version, c.KeyspaceID)
		}
	}
	for _, c := range changes {
		if isDrop(c) && !l.dropped[c.KeyspaceID] {
			return fmt.Errorf("version %d has in the feed the drop of keyspace %d, which exists", version, c.KeyspaceID)
		}
	}
	if got, want := render(slices.DeleteFunc(slices.Clone(changes), isDrop)), l.filtered(version, o); got != want {
		return fmt.Errorf("version %d has in a feed of %q with prefix %q\n%s\nwant\n%s", version, o.Keyspaces, o.Prefix, got, want)
	}
	return nil
}

// forget takes back the versions after last, which a power cut has taken.
func (l *ledger) forget(last uint64) {
	for v := last + 1; v <= l.last; v++ {
		delete(l.changes, v)
	}
	l.last = last
}

// filtered returns the lines of a version that a feed with a filter has, but for drops.
func (l *ledger) filtered(version uint64, o *feed.Options) string {
	return render(slices.DeleteFunc(slices.Clone(l.changes[version]), func(c feed.Change) bool {
		return l.dropped[c.KeyspaceID] || !within(&c, o)
	}))
}

// within reports whether a feed with a filter has a change.
func within(c *feed.Change, o *feed.Options) bool {
	if o.Keyspaces != nil && !slices.Contains(o.Keyspaces, c.Keyspace) {
		return false
	}
	switch c.Kind {
	case feed.DropKeyspace:
		return true
	case feed.DeleteRange:
	default:
		return bytes.HasPrefix(c.Key, o.Prefix)
	}
	// The range and the keys with the prefix meet in the keys from here on. No key of a
	// life has 0xff.
	from, until := max(string(c.Key), string(o.Prefix)), string(o.Prefix)+"\xff"
	return from < until && (c.End == nil || from < string(c.End))
}

// drawFilter draws which changes a feed has.
func drawFilter(rng *rand.Rand) (o feed.Options) {
	o.Keyspaces = [][]string{nil, {""}, {"other"}, {"other", ""}, {"none"}}[rng.IntN(5)]
	o.Prefix = []byte([]string{"", "k", "k1", "k3", "k25", "asum", "asum1", "z"}[rng.IntN(8)])
	return o
}

// line is the form of a change in a ledger.
func line(c *feed.Change) string {
	h := fnv.New64a()
	h.Write(c.Value)
	return fmt.Sprintf("%s %s %q %q %d %x %d %d %d", c.Kind, c.Keyspace, c.Key, c.End, len(c.Value), h.Sum64(),
		max(c.ExpiresAt.UnixMilli(), 0), c.UserMeta, c.Timestamp)
}

// render returns the lines of a commit: the range deletions, and then the rest in the order
// of their keys. The changes of one key keep their order.
func render(changes []feed.Change) string {
	sorted := slices.Clone(changes)
	slices.SortStableFunc(sorted, func(a, b feed.Change) int {
		if ra, rb := a.Kind == feed.DeleteRange, b.Kind == feed.DeleteRange; ra || rb {
			return strings.Compare(fmt.Sprint(!ra), fmt.Sprint(!rb))
		}
		if c := strings.Compare(a.Keyspace, b.Keyspace); c != 0 {
			return c
		}
		return bytes.Compare(a.Key, b.Key)
	})
	var lines []string
	for i := range sorted {
		lines = append(lines, line(&sorted[i]))
	}
	return strings.Join(lines, "\n")
}

// copied returns a change that outlives the loop.
func copied(c feed.Change) feed.Change {
	c.Key, c.End, c.Value = bytes.Clone(c.Key), bytes.Clone(c.End), bytes.Clone(c.Value)
	return c
}

// keysMax is the number of keys of a keyspace.
const keysMax = 60

func keyOf(i int) []byte { return fmt.Appendf(nil, "k%02d", i) }

// sums is what the keys of merges begin with. They are in the default keyspace only, and
// no range deletion reaches them: it would make a merge of the same transaction a Set.
var sums = []byte("asum")

// draw returns the writes of a transaction: range deletions first, then different keys.
func draw(rng *rand.Rand) (changes []feed.Change) {
	space := func() string { return []string{"", "other"}[rng.IntN(2)] }
	for rng.IntN(5) == 0 {
		from := rng.IntN(keysMax)
		c := feed.Change{Kind: feed.DeleteRange, Keyspace: space(), Key: keyOf(from), End: keyOf(from + 1 + rng.IntN(9))}
		if rng.IntN(6) == 0 {
			c.End = nil
		}
		if !slices.ContainsFunc(changes, func(o feed.Change) bool { return o.Keyspace == c.Keyspace }) {
			changes = append(changes, c)
		}
	}
	in := space()
	for _, i := range rng.Perm(keysMax)[:rng.IntN(6)] {
		c := feed.Change{Kind: feed.Set, Keyspace: in, Key: keyOf(i)}
		switch rng.IntN(5) {
		case 0:
			c.Kind = feed.Delete
		default:
			c.Value, c.UserMeta = valueOf(rng), byte(rng.IntN(3))
		}
		changes = append(changes, c)
	}
	for range rng.IntN(3) {
		c := feed.Change{Kind: feed.Merge, Key: append(slices.Clone(sums), byte('0'+rng.IntN(3))), Value: fmt.Appendf(nil, "+%d", rng.IntN(1000))}
		changes = append(changes, c)
	}
	return changes
}

// valueOf draws a value: mostly a short one, at times one for a value file.
func valueOf(rng *rand.Rand) []byte {
	n := rng.IntN(40)
	switch rng.IntN(30) {
	case 0:
		n = 20_000 + rng.IntN(30_000) // a commit may write it to a value file
	case 1, 2, 3:
		n = 500 + rng.IntN(3000)
	}
	return bytes.Repeat([]byte{byte('a' + rng.IntN(26))}, n)
}

// write does the changes in a transaction.
func write(tx stoat.Txn, other *stoat.Keyspace, changes []feed.Change) error {
	for i := range changes {
		c, tx := &changes[i], tx
		if c.Keyspace != "" {
			tx = tx.In(other)
		}
		var err error
		switch c.Kind {
		case feed.DeleteRange:
			err = tx.DeleteRange(c.Key, c.End)
		case feed.Delete:
			err = tx.Delete(c.Key)
		case feed.Merge:
			err = tx.Merge(c.Key, c.Value)
		default:
			err = tx.Set(c.Key, c.Value, stoat.UserMeta(c.UserMeta))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
