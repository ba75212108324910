package reads

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// chosen is a choice of keys.
func chosen(key []byte) bool { return key[len(key)-1]%3 == 0 }

// drawStream draws options of a stream.
func (l *life) drawStream() (o stoat.StreamOptions) {
	o.AllKeyspaces, o.Ordered, o.Workers = l.rng.IntN(3) == 0, l.rng.IntN(2) == 0, l.rng.IntN(5)
	o.Keyspace = l.spaces[l.space()]
	if l.rng.IntN(3) == 0 {
		o.Lower = []byte(l.key())
	}
	if l.rng.IntN(3) == 0 {
		o.Upper = []byte(l.key())
	}
	if l.rng.IntN(4) == 0 {
		o.Prefix = [][]byte{[]byte("1"), []byte("23"), []byte("\xff"), []byte("\xff1"), []byte("none")}[l.rng.IntN(5)]
	}
	if l.rng.IntN(3) == 0 {
		o.Since = l.rng.Uint64N(l.m.Last() + 1)
	}
	if l.rng.IntN(4) == 0 {
		o.Choose = chosen
	}
	o.KeysOnly = l.rng.IntN(5) == 0
	return o
}

// nameOf returns the name of a keyspace.
func nameOf(ks *stoat.Keyspace) string {
	if ks == nil {
		return ""
	}
	return ks.Name()
}

// collect returns the items of a stream as items of the model, in the order in which they
// came.
func (l *life) collect(o stoat.StreamOptions) (all []model.Item, err error) {
	version, err := l.db.Stream(context.Background(), o, func(b *stoat.StreamBatch) error {
		l.work.Batches++
		for n, i := range b.Items {
			if n > 0 && bytes.Compare(b.Items[n-1].Key, i.Key) > 0 {
				return fmt.Errorf("%q comes after %q in a batch", i.Key, b.Items[n-1].Key)
			}
			item := model.Item{Key: nameOf(b.Keyspace) + "/" + string(i.Key)}
			item.Seq, item.Value, item.User, item.Deleted = i.Version, string(i.Value), i.UserMeta, i.Deleted
			if !i.ExpiresAt.IsZero() {
				item.ExpiresAt = uint64(i.ExpiresAt.UnixMilli())
			}
			all = append(all, item)
		}
		return nil
	})
	l.work.Streams++
	if err == nil && version != l.m.Last() {
		err = fmt.Errorf("a stream has version %d, want %d", version, l.m.Last())
	}
	return all, err
}

// wanted returns the items that a stream of the newest versions should have, in the order of
// their keys.
func (l *life) wanted(o stoat.StreamOptions) (all []model.Item) {
	for _, i := range l.m.Scan(l.m.Last(), testkit.ClockStart) {
		name, key, _ := strings.Cut(i.Key, "/")
		if !o.AllKeyspaces && name != nameOf(o.Keyspace) || key < string(o.Lower) || o.Upper != nil && key >= string(o.Upper) ||
			!strings.HasPrefix(key, string(o.Prefix)) || i.Seq <= o.Since || o.Choose != nil && !o.Choose([]byte(key)) {
			continue
		}
		if o.KeysOnly {
			i.Value = ""
		}
		all = append(all, i)
	}
	return all
}

// byKey compares the keyspaces of two items and, unless the keys have an order already,
// their keys.
func byKey(ordered bool) func(a, b model.Item) int {
	return func(a, b model.Item) int {
		if ordered {
			a.Key, _, _ = strings.Cut(a.Key, "/")
			b.Key, _, _ = strings.Cut(b.Key, "/")
		}
		return strings.Compare(a.Key, b.Key)
	}
}

// stream compares a stream of the newest versions with the model.
func (l *life) stream() error {
	o := l.drawStream()
	got, err := l.collect(o)
	if err == nil {
		slices.SortStableFunc(got, byKey(o.Ordered))
		if d := model.Diff(got, l.wanted(o)); d != "" {
			err = fmt.Errorf("%s", d)
		}
	}
	if err != nil {
		return fmt.Errorf("stream %+v: %w", o, err)
	}
	return nil
}

// streamVersions demands that a stream of all versions has those that the database must
// keep.
func (l *life) streamVersions() error {
	o := stoat.StreamOptions{AllKeyspaces: true, Ordered: l.rng.IntN(2) == 0}
	o.AllVersions = true
	got, err := l.collect(o)
	if err != nil {
		return err
	}
	slices.SortStableFunc(got, byKey(o.Ordered))
	// The keyspaces do not come in the order of their names.
	slices.SortStableFunc(got, func(a, b model.Item) int { return cmp.Compare(a.Key, b.Key) })
	if d := l.m.Kept(got, l.m.Last(), testkit.ClockStart); d != "" {
		return fmt.Errorf("stream of all versions: %s", d)
	}
	return nil
}

// streamDeletions demands that a stream with deletions has all values, and deletes none of
// them.
func (l *life) streamDeletions() error {
	o := stoat.StreamOptions{Keyspace: l.spaces[l.space()], Deletions: true, Ordered: true}
	if l.rng.IntN(2) == 0 {
		o.Since = l.rng.Uint64N(l.m.Last() + 1)
	}
	copied, name := map[string]model.Item{}, nameOf(o.Keyspace)
	want := l.wanted(stoat.StreamOptions{Keyspace: o.Keyspace})
	for _, i := range want {
		if i.Seq <= o.Since {
			copied[i.Key] = i // as a follower has it
		}
	}
	var values []model.Item
	_, err := l.db.Stream(context.Background(), o, func(b *stoat.StreamBatch) error {
		for _, i := range b.Items {
			key := name + "/" + string(i.Key)
			switch newest, _ := l.m.Newest(key, l.m.Last()); {
			case i.Version <= o.Since:
				return fmt.Errorf("%q has version %d, since %d", i.Key, i.Version, o.Since)
			case i.End != nil:
				for k, item := range copied {
					if k >= key && (len(i.End) == 0 || k < name+"/"+string(i.End)) {
						return fmt.Errorf("the deletion of %q to %q hides %v", i.Key, i.End, item)
					}
				}
			case i.Deleted && newest.Live(testkit.ClockStart):
				return fmt.Errorf("%q is deleted at %d, want the value of %d", i.Key, i.Version, newest.Seq)
			case !i.Deleted && newest.Live(testkit.ClockStart): // values that have expired may show
				item := model.Item{Key: key, Version: newest}
				item.Seq, item.Value = i.Version, string(i.Value)
				values = append(values, item)
				copied[key] = item
			}
		}
		return nil
	})
	if err == nil {
		want = slices.DeleteFunc(want, func(i model.Item) bool { return i.Seq <= o.Since })
		if d := model.Diff(values, want); d != "" {
			err = fmt.Errorf("%s", d)
		}
	}
	if err != nil {
		return fmt.Errorf("stream %+v: %w", o, err)
	}
	return nil
}
