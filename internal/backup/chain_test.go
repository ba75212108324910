package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/stamp"
)

// parse makes the items of a text such as "a#7 a#3= @b#9D". The letter is the kind: a value
// if there is none, M a merge, D a deletion at a timestamp; = is an unchanged version. @ is
// before keys of a keyspace with timestamps.
func parse(text string) (all []Item) {
	kinds := map[string]base.Kind{"": base.KindSet, "M": base.KindMerge, "D": base.KindStampDelete, "=": 0}
	for _, word := range strings.Fields(text) {
		key, rest, _ := strings.Cut(word, "#")
		kind := strings.TrimLeft(rest, "0123456789")
		var seq base.SeqNum
		fmt.Sscan(strings.TrimSuffix(rest, kind), &seq)
		if user, timed := strings.CutPrefix(key, "@"); timed {
			key = timedKey(user, 5)
		}
		all = append(all, Item{Entry: base.Entry{Key: []byte(key), Seq: seq, Meta: base.Meta{Kind: kinds[kind]}}, Unchanged: kind == "="})
	}
	return all
}

// backupsOf returns backups at versions 10, 20, 30 and so on.
func backupsOf(t *testing.T, texts ...string) (readers []io.Reader) {
	t.Helper()
	for i, text := range texts {
		h, _ := sample()
		h.Since, h.State.LastSeq = base.SeqNum(10*i), base.SeqNum(10*i+10)
		readers = append(readers, bytes.NewReader(write(t, h, parse(text), false)))
	}
	return readers
}

// chainOf returns what a chain of backups restores.
func chainOf(t *testing.T, texts ...string) (restored string, err error) {
	t.Helper()
	c, err := OpenChain(0, backupsOf(t, texts...))
	if err != nil {
		return "", err
	}
	for {
		it, _, err := c.Next()
		if err == io.EOF {
			return strings.TrimSpace(restored), nil
		}
		if err != nil {
			return restored, err
		}
		key := it.Key
		if encoded, timed := bytes.CutPrefix(key, []byte("\xff\x01")); timed {
			key = append([]byte("@"), stamp.Beginning(encoded)...)
		}
		restored += fmt.Sprintf(" %s#%d", key, it.Seq)
	}
}

func TestChain_KeepsWhatEachLaterBackupNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		backups []string
		want    string
	}{
		{"a full one", []string{"a#7 a#3 b#9M b#4 c#5"}, "a#7 a#3 b#9 b#4 c#5"},
		{"unchanged keys keep all versions", []string{"a#7 a#3 b#9M b#4", "a#7= b#15M b#9="}, "a#7 a#3 b#15 b#9 b#4"},
		{"a key without a name is gone", []string{"a#7 b#4 c#5", "b#4= c#15"}, "b#4 c#15"},
		{"a newer version alone replaces the older ones", []string{"a#7 a#3", "a#15"}, "a#15"},
		{"a deletion hides the older ones", []string{"@a#7 @a#3 @b#2", "@a#15D @b#2="}, "@a#15 @b#2"},
		{"an older version is the newest left", []string{"a#9M a#3", "a#15M a#3="}, "a#15 a#3"},
		{"a value became a deletion", []string{"@a#7 @b#4", "@a#7D @b#4="}, "@a#7 @b#4"},
		{"through several", []string{"a#7 b#4 d#1", "a#7= b#12 d#1=", "a#7= b#12= c#25 d#1="}, "a#7 b#12 c#25 d#1"},
		{"gone in the middle", []string{"a#7 b#4", "b#4=", "a#25 b#4="}, "a#25 b#4"},
		{"new keys at both ends", []string{"m#7", "a#15 m#7= z#15"}, "a#15 m#7 z#15"},
		{"nothing left", []string{"a#7 b#4", ""}, ""},
		// Retention keeps an older version than those of the backup before.
		{"history that no backup has", []string{"a#7 b#4", "a#15 a#5= b#4="}, "a#15 b#4"},
		{"history of a key that no backup has", []string{"b#4", "a#15 a#5= b#4="}, "a#15 b#4"},
		{"history that the backup in the middle lacks", []string{"a#7 a#3", "a#15", "a#25 a#7="}, "a#25"},
		{"history below operands", []string{"a#7 a#3", "a#19M a#15 a#5="}, "a#19 a#15"},
	} {
		if got, err := chainOf(t, c.backups...); got != c.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
		for first := range c.backups {
			infos, err := VerifyChain(t.Context(), backupsOf(t, c.backups...)[first:])
			if err != nil || len(infos) != len(c.backups)-first {
				t.Errorf("%s: verified from backup %d on: %+v, %v", c.name, first+1, infos, err)
			}
		}
	}
}

// Backups of copies of one database with different histories fit by their numbers.
func TestChain_AnUnchangedVersionMustBeThere(t *testing.T) {
	t.Parallel()
	for name, backups := range map[string][]string{
		"the key is not there":             {"b#4", "a#7= b#4="},
		"the version is not there":         {"a#7 a#3", "a#5="},
		"only newer versions are there":    {"a#7", "a#5="},
		"the key is gone in the middle":    {"a#7 b#4", "b#4=", "a#7= b#4="},
		"the version was named no more":    {"a#7 a#3", "a#15", "a#7="},
		"the last key of the backup is it": {"a#7", "a#7= z#4="},
		"operands need it":                 {"a#7 a#3", "a#15M a#5="},
	} {
		if got, err := chainOf(t, backups...); !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if _, err := VerifyChain(t.Context(), backupsOf(t, backups...)); !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%s: verify says %v", name, err)
		}
	}
}

// A backup without changes has no items. Those of the backup before it count, which is not there.
func TestVerifyChain_MayBeginWithABackupWithoutChanges(t *testing.T) {
	t.Parallel()
	same, _ := sample()
	same.Since, same.State.LastSeq = 10, 10
	next := same
	next.State.LastSeq = 20
	infos, err := VerifyChain(t.Context(), []io.Reader{bytes.NewReader(write(t, same, nil, false)), bytes.NewReader(write(t, next, parse("a#7= b#15M b#4="), false))})
	if err != nil || len(infos) != 2 || infos[1].Entries != 1 || infos[1].Unchanged != 2 {
		t.Errorf("verified %+v, %v", infos, err)
	}
}

func TestChain_PassesOverBackupsWithoutChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, second, want string }{
		{"a#7 b#4", "a#7= c#15", "a#7 c#15"},
		{"a#7 a#3", "a#15 a#3=", "a#15 a#3"},
		{"a#7", "", ""},
	} {
		var backups []io.Reader
		add := func(since, version base.SeqNum, text string) {
			h, _ := sample()
			h.Since, h.State.LastSeq = since, version
			backups = append(backups, bytes.NewReader(write(t, h, parse(text), false)))
		}
		add(0, 10, c.first)
		add(10, 10, "")
		add(10, 10, "")
		add(10, 20, c.second)
		add(20, 20, "")
		chain, err := OpenChain(0, backups)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for err == nil {
			var it Item
			if it, _, err = chain.Next(); err == nil {
				got += fmt.Sprintf(" %s#%d", it.Key, it.Seq)
			}
		}
		if got = strings.TrimSpace(got); err != io.EOF || got != c.want {
			t.Errorf("%s, then %s: %q, %v; want %q", c.first, c.second, got, err, c.want)
		}
	}
}

// A compaction filter changes values without a new version, so several backups may have one
// version.
func TestChain_UpToAVersionEndsWithTheLastBackupOfIt(t *testing.T) {
	t.Parallel()
	backup := func(since, version base.SeqNum) []byte {
		h, _ := sample()
		h.Since, h.State.LastSeq = since, version
		return write(t, h, nil, false)
	}
	first, second, same, third := backup(0, 10), backup(10, 20), backup(20, 20), backup(20, 30)
	for _, c := range []struct {
		name    string
		backups [][]byte
		upTo    uint64
		want    int // backups of the chain
	}{
		{"no later one", [][]byte{first, second}, 20, 2},
		{"another one of it", [][]byte{first, second, same}, 20, 3},
		{"two others, and a later one", [][]byte{first, second, same, same, third}, 20, 4},
		{"a foreign one after it", [][]byte{first, second, backup(0, 20), same}, 20, 2},
		{"an earlier version", [][]byte{first, second, same}, 10, 1},
		{"all", [][]byte{first, second, same, third}, 0, 4},
	} {
		var readers []io.Reader
		for _, b := range c.backups {
			readers = append(readers, bytes.NewReader(b))
		}
		chain, err := OpenChain(c.upTo, readers)
		if err != nil || len(chain.links) != c.want {
			t.Errorf("%s: %+v, %v; want %d backups", c.name, chain, err, c.want)
		}
	}
	if _, err := OpenChain(20, []io.Reader{bytes.NewReader(first), strings.NewReader("damaged")}); !errors.Is(err, base.ErrCorrupt) {
		t.Errorf("a damaged backup before the version: %v", err)
	}
	broken := errors.New("broken")
	for want, next := range map[error]io.Reader{base.ErrCorrupt: strings.NewReader("damaged"), broken: iotest.ErrReader(broken)} {
		_, err := OpenChain(20, []io.Reader{bytes.NewReader(first), bytes.NewReader(second), next, bytes.NewReader(third)})
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "backup 3 of 4 may be of version 20, too") {
			t.Errorf("a backup that cannot be read, and may be of the version: %v, want %v", err, want)
		}
	}
	if _, err := OpenChain(15, []io.Reader{bytes.NewReader(first), bytes.NewReader(second)}); !errors.Is(err, ErrChain) {
		t.Errorf("a version that no backup has: %v", err)
	}
}
