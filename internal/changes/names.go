package changes

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
)

// A named is a keyspace that exists.
type named struct {
	keyspace.Space
	of           *manifest.Keyspace
	name         string
	timed        bool   // the caller chooses the timestamps
	lower, upper []byte // bounds of the stored keys; lower is nil for no bound
}

// names are the keyspaces that exist, by their numbers.
type names struct {
	of  []*manifest.Keyspace
	all []*named // ascending by number
	// dropped has the names of those that are dropped and not forgotten yet.
	dropped map[uint32]string
}

// set takes over the keyspaces of the manifest. The manifest never changes a table of them: each
// change makes another one, which shares the keyspaces that stay the same.
func (n *names) set(keyspaces []*manifest.Keyspace) {
	if len(n.of) == len(keyspaces) && (len(n.of) == 0 || &n.of[0] == &keyspaces[0]) {
		return
	}
	before := n.all
	n.of, n.all, n.dropped = keyspaces, make([]*named, 0, len(keyspaces)), map[uint32]string{}
	for _, k := range keyspaces {
		if k.Dropping {
			n.dropped[k.Number] = k.Name
			continue
		}
		for len(before) > 0 && before[0].of.Number < k.Number {
			before = before[1:]
		}
		if len(before) > 0 && before[0].of == k {
			n.all = append(n.all, before[0])
			continue
		}
		s := &named{Space: keyspace.New(k.Number), of: k, name: k.Name, timed: k.Timed()}
		s.lower, s.upper = s.Bounds()
		n.all = append(n.all, s)
	}
}

// within returns the keyspaces that have keys from lo up to hi. An empty hi is no bound.
func (n *names) within(lo, hi []byte) []*named {
	from, _ := slices.BinarySearchFunc(n.all, lo, func(k *named, lo []byte) int {
		if bytes.Compare(k.upper, lo) <= 0 {
			return -1
		}
		return 1
	})
	to := from
	for to < len(n.all) && (len(hi) == 0 || bytes.Compare(n.all[to].lower, hi) < 0) {
		to++
	}
	return n.all[from:to]
}

// find returns the keyspace with a number, or nil.
func (n *names) find(number uint32) *named {
	i, found := slices.BinarySearchFunc(n.all, number, func(k *named, number uint32) int { return cmp.Compare(k.Number(), number) })
	if !found {
		return nil
	}
	return n.all[i]
}

// dropOf returns the number of the dropped keyspace that has the keys from lo up to hi, or 0.
// whole says that these are all of its keys.
func (n *names) dropOf(lo, hi []byte) (number uint32, whole bool) {
	number, err := keyspace.NumberOf(append(bytes.Clone(lo), 0)) // of a key behind lo
	if err != nil || number == 0 || n.find(number) != nil {
		return 0, false
	}
	s := keyspace.New(number)
	lower, upper := s.Bounds()
	return number, bytes.Equal(lo, lower) && bytes.Equal(hi, upper)
}

// gone returns the dropped keyspace with a number.
func (n *names) gone(number uint32) *named {
	return &named{Space: keyspace.New(number), name: n.dropped[number]}
}

// A filter says which changes a feed has.
type filter struct {
	prefix []byte
	all    bool // keyspaces
	names  []string
}

// some reports whether the filter leaves changes out.
func (f *filter) some() bool { return !f.all || len(f.prefix) > 0 }

// takes reports whether the feed has changes of a keyspace.
func (f *filter) takes(k *named) bool { return f.all || slices.Contains(f.names, k.name) }

// takesDrop reports whether the feed has the drop of a keyspace.
func (f *filter) takesDrop(k *named) bool { return k.name == "" || f.takes(k) }

// takesRange reports whether a range of keys may have keys of the feed. An end of nil is
// none.
func (f *filter) takesRange(key, end []byte) bool {
	if mutant.On(mutant.FeedRangeBefore) && !bytes.HasPrefix(key, f.prefix) {
		return false
	}
	return (end == nil || bytes.Compare(f.prefix, end) < 0) && (bytes.Compare(key, f.prefix) <= 0 || bytes.HasPrefix(key, f.prefix))
}
