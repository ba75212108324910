package settings

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/manifest"
)

func TestResolve_FillsInWhatIsNotStored(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stored manifest.Settings
		want   Settings
	}{
		{manifest.Settings{}, Settings{NumVersions: 1, Compression: None, ValueThreshold: 512, LargeValueThreshold: 4096}},
		{manifest.Settings{ValueThreshold: 5000}, Settings{NumVersions: 1, Compression: None, ValueThreshold: 5000, LargeValueThreshold: 5000}},
		{manifest.Settings{LargeValueThreshold: 600}, Settings{NumVersions: 1, Compression: None, ValueThreshold: 512, LargeValueThreshold: 600}},
		{manifest.Settings{NumVersions: 3, Compression: 3, ValueThreshold: 64, LargeValueThreshold: 1 << 30}, Settings{NumVersions: 3, Compression: Small, ValueThreshold: 64, LargeValueThreshold: 1 << 30}},
		{manifest.Settings{MergeFunction: "sum", Filter: "old"}, Settings{NumVersions: 1, Compression: None, ValueThreshold: 512, LargeValueThreshold: 4096, MergeFunction: "sum", Filter: "old"}},
		{manifest.Settings{DefaultTTLMs: 7}, Settings{NumVersions: 1, Compression: None, ValueThreshold: 512, LargeValueThreshold: 4096, DefaultTTLMs: 7}},
		{manifest.Settings{NumVersions: 1<<32 - 1}, Settings{NumVersions: 1<<31 - 1, Compression: None, ValueThreshold: 512, LargeValueThreshold: 4096}},
	} {
		if got := Resolve(&c.stored); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.stored, got, c.want)
		}
	}
}

func TestGiven_TellsTheTimeToLiveThatItStored(t *testing.T) {
	t.Parallel()
	for ttl, want := range map[time.Duration]time.Duration{
		1: time.Millisecond, time.Hour: time.Hour, -1: 0, math.MaxInt64: math.MaxInt64, math.MinInt64: 0,
		math.MaxInt64 - 1e6: 9223372036854 * time.Millisecond,
	} {
		var m manifest.Settings
		g := Given{DefaultTTL: ttl}
		g.Store(&m)
		s := Resolve(&m)
		if got := s.Given().DefaultTTL; got != want {
			t.Errorf("a time to live of %d is told as %d, want %d", ttl, got, want)
		}
	}
}

func TestTable_OfEachKeyspace(t *testing.T) {
	t.Parallel()
	var table Table
	table.Set([]*manifest.Keyspace{{Settings: manifest.Settings{NumVersions: 2}}, {Number: 7, Settings: manifest.Settings{NumVersions: 9}}})
	before := table.Of(7)
	for number, want := range map[uint32]int{0: 2, 7: 9, 8: 2} {
		if got := table.Of(number).NumVersions; got != want {
			t.Errorf("keyspace %d keeps %d versions, want %d", number, got, want)
		}
	}
	if n := table.VersionsMax(); n != 9 {
		t.Errorf("a keyspace keeps %d versions, want 9", n)
	}
	walk := Walk{Of: table.Of}
	for _, c := range []struct {
		key  string
		want int
	}{{"a", 2}, {"\xff\x00\xff", 2}, {"\xff\x07a", 9}, {"\xff\x07b", 9}, {"\xff\x08a", 2}} {
		if n := walk.At([]byte(c.key)).NumVersions; n != c.want {
			t.Errorf("the stored key %q keeps %d versions, want %d", c.key, n, c.want)
		}
	}
	table.Set([]*manifest.Keyspace{{}, {Number: 8, Settings: manifest.Settings{NumVersions: 4}}})
	if table.Of(8).NumVersions != 4 || table.Of(7).NumVersions != 1 || before.NumVersions != 9 {
		t.Errorf("after a change: %+v, %+v, and before it %+v", table.Of(8), table.Of(7), before)
	}
}

func TestTable_KeyspacesThatAnEditLeavesAloneKeepTheirSettings(t *testing.T) {
	t.Parallel()
	keyspace := func(number, versions uint32) *manifest.Keyspace {
		return &manifest.Keyspace{Number: number, Settings: manifest.Settings{NumVersions: versions}}
	}
	var table Table
	var keyspaces []*manifest.Keyspace
	for number := range uint32(10) {
		keyspaces = append(keyspaces, keyspace(number, 10+number))
	}
	table.Set(keyspaces)
	var before [10]*Settings
	for number := range before {
		before[number] = table.Of(uint32(number))
	}
	next := slices.Clone(keyspaces)
	next[5] = keyspace(5, 50)
	next = slices.Delete(next, 3, 4)
	next = append(next, keyspace(10, 40))
	table.Set(next)
	for number, was := range before {
		switch got := table.Of(uint32(number)); number {
		case 3:
			if got != table.Default() {
				t.Errorf("the forgotten keyspace has the settings %+v", got)
			}
		case 5:
			if got.NumVersions != 50 {
				t.Errorf("the changed keyspace has the settings %+v", got)
			}
		default:
			if got != was {
				t.Errorf("the settings %+v of keyspace %d are another copy of %+v", got, number, was)
			}
		}
	}
	if n := table.Of(10).NumVersions; n != 40 {
		t.Errorf("the new keyspace keeps %d versions, want 40", n)
	}
	if n := table.VersionsMax(); n != 50 {
		t.Errorf("a keyspace keeps %d versions, want 50", n)
	}
}

func TestFollow_ForgottenKeyspacesHaveTheirSettingsWhileReadersSeeThem(t *testing.T) {
	t.Parallel()
	var table Table
	first, seventh := &manifest.Keyspace{}, &manifest.Keyspace{Number: 7, Settings: manifest.Settings{NumVersions: 9}}
	table.Set([]*manifest.Keyspace{first, seventh})
	for i, c := range []struct {
		keyspaces      []*manifest.Keyspace
		oldest, newest base.SeqNum
		want           int
	}{
		{[]*manifest.Keyspace{first, seventh}, 10, 20, 9},
		{[]*manifest.Keyspace{first}, 10, 20, 9},
		{[]*manifest.Keyspace{first}, 20, 30, 9},
		{[]*manifest.Keyspace{first}, 21, 40, 1},
		{[]*manifest.Keyspace{first, seventh}, 40, 40, 9}, // the edit that forgot it is lost
		{[]*manifest.Keyspace{first}, 40, 40, 9},
		{[]*manifest.Keyspace{first}, 41, 41, 1},
	} {
		table.Follow(c.keyspaces, c.oldest, c.newest)
		if got := table.Of(7).NumVersions; got != c.want {
			t.Errorf("step %d: the keyspace keeps %d versions, want %d", i, got, c.want)
		}
	}
	if n := len(table.current.Load().forgotten); n != 0 {
		t.Errorf("settings of %d keyspaces are left", n)
	}
}

func TestCompression_UpperLevelsUseTheFastCodec(t *testing.T) {
	t.Parallel()
	for c, want := range map[Compression][3]codec.ID{
		0: {codec.None, codec.None, codec.None}, None: {codec.None, codec.None, codec.None},
		Fast: {codec.S2, codec.S2, codec.S2}, Small: {codec.S2, codec.Zstd, codec.Zstd},
	} {
		if got := [3]codec.ID{c.OfTables(0), c.OfTables(manifest.Levels - 1), c.OfValues()}; got != want {
			t.Errorf("compression %d: codecs %v, want %v", c, got, want)
		}
	}
}

func TestGiven_ARemovedNameLeavesATrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ stored, given, want, used string }{
		{"", "", "", ""}, {"", "f", "f", "f"}, {"", NoName, "", ""}, {"f", "", "f", "f"},
		{"f", "g", "g", "g"}, {"f", NoName, NoName, ""}, {NoName, "", NoName, ""}, {NoName, "f", "f", "f"},
	} {
		m := manifest.Settings{MergeFunction: c.stored, Filter: c.stored}
		Given{MergeFunction: c.given, Filter: c.given}.Store(&m)
		r := Resolve(&m)
		if m.MergeFunction != c.want || m.Filter != c.want || r.MergeFunction != c.used || r.Filter != c.used {
			t.Errorf("%q over %q stores %q and %q, and uses %q and %q; want %q, used %q",
				c.given, c.stored, m.MergeFunction, m.Filter, r.MergeFunction, r.Filter, c.want, c.used)
		}
	}
}
