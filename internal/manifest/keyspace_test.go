package manifest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
)

// Tests know these features.
const (
	featureA = "a-test"
	featureB = "b-test"
)

func init() { knownFeatures = append(knownFeatures, featureA, featureB) }

// testSettings returns random settings.
func testSettings(rng *rand.Rand) Settings {
	s := Settings{NumVersions: rng.Uint32N(4), Compression: uint8(rng.IntN(4)), Timestamps: uint8(rng.IntN(3)),
		ValueThreshold: rng.Uint64N(3) * 1000, LargeValueThreshold: rng.Uint64N(3) * 4000, DefaultTTLMs: rng.Uint64N(3)}
	if rng.IntN(2) == 0 {
		s.MergeFunction, s.Filter = "sum", strings.Repeat("f", rng.IntN(SettingNameMax))
	}
	if s.Timestamps > 0 {
		s.DiscardBelow = rng.Uint64N(3)
	}
	if rng.IntN(3) == 0 {
		s.Unknown = "\x07\x80\x02\x00hi"
	}
	return s
}

// addKeyspaceEdit adds changes of keyspaces, features and unknown fields to e.
func addKeyspaceEdit(rng *rand.Rand, s State, e *Edit) {
	next := max(s.NextKeyspace, 1)
	for _, k := range s.Keyspaces {
		changed := *k
		switch rng.IntN(5) {
		case 0:
			changed.Settings = testSettings(rng)
		case 1:
			changed.Dropping = k.Number > 0
		case 2:
			if k.Dropping {
				e.ForgetKeyspaces = append(e.ForgetKeyspaces, k.Number)
			}
			continue
		default:
			continue
		}
		e.PutKeyspaces = append(e.PutKeyspaces, &changed)
	}
	for range rng.IntN(4) {
		next += 1 + rng.Uint32N(2)
		e.PutKeyspaces = append(e.PutKeyspaces, &Keyspace{Number: next - 1, Name: fmt.Sprint("space-", next),
			Settings: testSettings(rng), Dropping: rng.IntN(4) == 0})
		e.NextKeyspace = Some(next)
	}
	switch rng.IntN(6) {
	case 0:
		e.RequiredFeatures = append([]string{featureA}, e.RequiredFeatures...)
	case 1:
		e.RequiredFeatures = append([]string{featureA, featureB}, e.RequiredFeatures...)
	case 2:
		e.OptionalFeatures = []string{"a-hint", "of-tomorrow"}
	}
	if rng.IntN(4) == 0 {
		tag := tagIgnorable | uint16(rng.IntN(3))
		e.Unknown = []Field{{tag, strings.Repeat("u", rng.IntN(3))}, {tag + 1, "more"}}
	}
}

func TestKeyspace_EditsMatchATableByNumber(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	s, many, forgot := firstState(), newDraftOfMany(), 0
	folded, err := (State{}).apply(new(s.snapshot()), many)
	must(t, err)
	want := map[uint32]Keyspace{0: {}}
	features, fields := map[string]bool{}, map[uint16]string{}
	for range 400 {
		var e Edit
		addKeyspaceEdit(rng, s, &e)
		if s, err = s.Apply(e); err != nil {
			t.Fatal(err)
		}
		if folded, err = folded.apply(&e, many); err != nil {
			t.Fatal(err)
		}
		forgot += len(e.ForgetKeyspaces)
		for _, number := range e.ForgetKeyspaces {
			delete(want, number)
		}
		for _, k := range e.PutKeyspaces {
			want[k.Number] = *k
		}
		for _, name := range slices.Concat(e.RequiredFeatures, e.OptionalFeatures) {
			features[name] = true
		}
		for _, f := range e.Unknown {
			if fields[f.Tag] = f.Value; f.Value == "" {
				delete(fields, f.Tag)
			}
		}
		for number := range s.NextKeyspace {
			k, found := s.Keyspace(number)
			if w, live := want[number]; live != found || live && *k != w {
				t.Fatalf("keyspace %d is %+v, %v; want %+v, %v", number, k, found, w, live)
			}
		}
		got := map[uint16]string{}
		for _, f := range s.Unknown {
			got[f.Tag] = f.Value
		}
		if !maps.Equal(got, fields) {
			t.Fatalf("fields of a later version %v, want %v", got, fields)
		}
	}
	folded.finish(many)
	if !same(folded, s) {
		t.Fatalf("many edits at once make %+v, one after the other %+v", folded, s)
	}
	if n := len(s.RequiredFeatures) + len(s.OptionalFeatures); n != len(features) || forgot < 20 {
		t.Fatalf("%d features of %d, %d keyspaces forgotten", n, len(features), forgot)
	}
}

func TestKeyspace_SettingsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		want := testSettings(rng)
		got, err := decodeSettings(want.appendTo(nil), 0)
		must(t, err)
		if got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
	if b := new(Settings).appendTo(nil); len(b) > 0 {
		t.Fatalf("settings that are not set take %d bytes", len(b))
	}
}

func TestKeyspace_RefusesAnInvalidTable(t *testing.T) {
	t.Parallel()
	put := func(ks ...*Keyspace) Edit { return Edit{PutKeyspaces: ks} }
	first, err := firstState().Apply(Edit{NextKeyspace: Some(uint32(10)), PutKeyspaces: []*Keyspace{
		{Number: 2, Name: "two"}, {Number: 4, Name: "four"}, {Number: 6, Name: "six", Dropping: true}}})
	must(t, err)
	set := func(s Settings) Edit { return put(&Keyspace{Settings: s}) }
	many := make([]*Keyspace, 20)
	for i := range many {
		many[i] = &Keyspace{Number: uint32(10 + i), Name: fmt.Sprint("name", i%19)}
	}
	next := func(e Edit) Edit {
		e.NextKeyspace = Some(uint32(100))
		return e
	}
	for _, c := range []struct {
		name string
		edit Edit
		want string
	}{
		{"the name of a live one", next(put(&Keyspace{Number: 10, Name: "two"})), `"two"`},
		{"a name taken by a rename", put(&Keyspace{Number: 4, Name: "two"}), `"two"`},
		{"a name twice in a long edit", next(put(many...)), `"name0"`},
		{"a number used before", put(&Keyspace{Number: 3, Name: "three"}), "used before"},
		{"a number of the future", put(&Keyspace{Number: 10, Name: "ten"}), "next keyspace is 10"},
		{"a number twice", put(&Keyspace{Number: 4, Name: "x"}, &Keyspace{Number: 4, Name: "y"}), "put after"},
		{"numbers that fall", put(&Keyspace{Number: 4, Name: "x"}, &Keyspace{Number: 2, Name: "y"}), "put after"},
		{"a return", put(&Keyspace{Number: 6, Name: "six"}), "cannot come back"},
		{"no name", put(&Keyspace{Number: 2}), "name of 0 bytes"},
		{"a long name", put(&Keyspace{Number: 2, Name: strings.Repeat("n", KeyspaceNameMax+1)}), "name of 256 bytes"},
		{"a name of the default keyspace", put(&Keyspace{Name: "zero"}), "default keyspace"},
		{"the default keyspace dropped", put(&Keyspace{Dropping: true}), "default keyspace"},
		{"a live one forgotten", Edit{ForgetKeyspaces: []uint32{2}}, "forgotten"},
		{"the default one forgotten", Edit{ForgetKeyspaces: []uint32{0}}, "forgotten"},
		{"an absent one forgotten", Edit{ForgetKeyspaces: []uint32{3}}, "forgotten"},
		{"one forgotten twice", Edit{ForgetKeyspaces: []uint32{6, 6}}, "forgotten"},
		{"a counter that falls", Edit{NextKeyspace: Some(uint32(9))}, "goes back"},
		{"too many versions", set(Settings{NumVersions: 1 << 31}), "versions"},
		{"no such compression", set(Settings{Compression: CompressionMax + 1}), "compression"},
		{"a long value", set(Settings{ValueThreshold: fileSizeMax + 1}), "thresholds"},
		{"a long large value", set(Settings{LargeValueThreshold: fileSizeMax + 1}), "thresholds"},
		{"a long life", set(Settings{DefaultTTLMs: base.TimeMsMax + 1}), "time to live"},
		{"a long name of a function", set(Settings{MergeFunction: strings.Repeat("n", SettingNameMax+1)}), "names"},
		{"a long name of a filter", set(Settings{Filter: strings.Repeat("n", SettingNameMax+1)}), "names"},
		{"more settings than fit", set(Settings{Unknown: strings.Repeat("n", settingsMax+1)}), "settings take"},
		{"a feature without a name", Edit{RequiredFeatures: []string{""}}, "0 bytes"},
		{"a feature with a long name", Edit{OptionalFeatures: []string{strings.Repeat("n", featureNameMax+1)}}, "65 bytes"},
		{"a feature that cannot be printed", Edit{OptionalFeatures: []string{"a b"}}, "printable"},
		{"too many features", Edit{OptionalFeatures: manyNames(featuresMax + 1)}, "65 features"},
		{"too many fields", Edit{Unknown: manyFields(unknownMax + 1)}, "65 fields"},
	} {
		after, err := first.Apply(c.edit)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		}
		if !same(after, first) {
			t.Errorf("%s: the state changed to %+v", c.name, after)
		}
	}
}

// manyNames returns n names in order.
func manyNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("name-%03d", i))
	}
	return names
}

// manyFields returns n fields of a later version.
func manyFields(n int) (fields []Field) {
	for i := range n {
		fields = append(fields, Field{uint16(tagIgnorable + i), "v"})
	}
	return fields
}

func TestKeyspace_DropForgetAndNewNameInOneEdit(t *testing.T) {
	t.Parallel()
	s, err := firstState().Apply(Edit{NextKeyspace: Some(uint32(3)), PutKeyspaces: []*Keyspace{
		{Number: 1, Name: "users"}, {Number: 2, Name: "old", Dropping: true}}})
	must(t, err)
	s, err = s.Apply(Edit{NextKeyspace: Some(uint32(4)), ForgetKeyspaces: []uint32{2}, PutKeyspaces: []*Keyspace{
		{Number: 1, Name: "users", Dropping: true}, {Number: 3, Name: "users"}}})
	must(t, err)
	if len(s.Keyspaces) != 3 || s.Keyspaces[1].Number != 1 || s.Keyspaces[2].Number != 3 {
		t.Fatalf("%+v", s.Keyspaces)
	}
	// The counter outlives all keyspaces.
	s, err = s.Apply(Edit{PutKeyspaces: []*Keyspace{{Number: 3, Name: "users", Dropping: true}}})
	must(t, err)
	s, err = s.Apply(Edit{ForgetKeyspaces: []uint32{1, 3}})
	must(t, err)
	again, err := State{}.Apply(s.snapshot())
	must(t, err)
	if !same(again, s) || again.NextKeyspace != 4 {
		t.Fatalf("a snapshot makes %+v of %+v", again, s)
	}
}

func TestFeature_UnknownRequiredOnesAreNamedFirst(t *testing.T) {
	t.Parallel()
	e := Edit{RequiredFeatures: []string{featureA, "of-tomorrow", "of-the-week"}, NextFile: Some(uint64(5))}
	slices.Sort(e.RequiredFeatures)
	for name, p := range map[string][]byte{
		"alone":                  e.AppendTo(nil),
		"before another tag":     append(e.AppendTo(nil), appendField(nil, 99, 0)...),
		"behind another format":  append(append(appendField(nil, tagAddTables, 3), "new"...), e.AppendTo(nil)...),
		"before a broken length": append(e.AppendTo(nil), appendField(nil, 99, 1<<30)...),
	} {
		_, err := DecodeEdit(p)
		if !errors.Is(err, base.ErrVersion) || !strings.Contains(err.Error(), `"of-the-week" "of-tomorrow"`) || strings.Contains(err.Error(), featureA) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := append(appendField(nil, tagFormatVersion, 4), FormatVersion+1, 0, 0, 0)
	if _, err := DecodeEdit(append(p, e.AppendTo(nil)...)); !errors.Is(err, base.ErrVersion) || !strings.Contains(err.Error(), "format version 2") {
		t.Errorf("with another version: %v", err)
	}
}

func TestFeature_IgnorableOnesSurviveANewManifest(t *testing.T) {
	t.Parallel()
	fs := newTestDisk(t)
	first := firstState()
	first.OptionalFeatures = []string{"of-tomorrow"}
	s, err := Create(fs, testDir, first, testRandom(1), nil)
	must(t, err)
	later := append(appendField(nil, tagIgnorable|5, 3), "new"...)
	e, err := DecodeEdit(later)
	must(t, err)
	must(t, s.Append(e))
	must(t, s.Append(Edit{PutKeyspaces: []*Keyspace{{Settings: Settings{Unknown: "\x09\x80\x01\x00!"}}}}))
	for number := s.mu.file.number; s.mu.file.number < number+2; {
		must(t, s.Append(Edit{Spans: Some(testSpans(rand.New(rand.NewPCG(1, 1)), 500))}))
	}
	want := s.State()
	must(t, s.Close())
	_, got, err := Load(fs, testDir, false, testRandom(2), nil)
	must(t, err)
	if !same(got, want) || got.OptionalFeatures[0] != "of-tomorrow" || got.Unknown[0] != (Field{tagIgnorable | 5, "new"}) ||
		got.Keyspaces[0].Settings.Unknown == "" {
		t.Fatalf("%+v, want %+v", got, want)
	}
}

func TestDamage_InvalidKeyspacesAndFeatures(t *testing.T) {
	t.Parallel()
	list := func(t tag, items ...string) []byte {
		return appendItems(nil, t, items, func(dst []byte, s string) []byte { return append(dst, s...) })
	}
	setting := func(fields string) []byte { return list(tagPutKeyspaces, "\x00\x00\x00\x00\x01\x00"+fields) }
	if _, err := DecodeEdit(setting("\x01\x00\x04\x00\x02\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string][]byte{
		"a short keyspace":        list(tagPutKeyspaces, "\x00\x00\x00\x00\x01"),
		"no state":                list(tagPutKeyspaces, "\x00\x00\x00\x00\x00\x00"),
		"no such state":           list(tagPutKeyspaces, "\x00\x00\x00\x00\x03\x00"),
		"a name that is cut off":  list(tagPutKeyspaces, "\x01\x00\x00\x00\x01\x02n"),
		"a short number":          list(tagForgetKeyspaces, "\x01\x00\x00"),
		"a short counter":         append(appendField(nil, tagNextKeyspace, 3), 1, 0, 0),
		"a short setting header":  setting("\x01\x00\x04"),
		"a short setting":         setting("\x01\x00\x04\x00\x02\x00\x00"),
		"a setting of a size":     setting("\x01\x00\x03\x00\x02\x00\x00"),
		"an empty setting":        setting("\x06\x00\x00\x00"),
		"0 versions":              setting("\x01\x00\x04\x00\x00\x00\x00\x00"),
		"compression 0":           setting("\x02\x00\x01\x00\x00"),
		"a threshold of 0":        setting("\x03\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		"timestamps 0":            setting("\x08\x00\x01\x00\x00"),
		"timestamps 3":            setting("\x08\x00\x01\x00\x03"),
		"a discard point of 0":    setting("\x08\x00\x01\x00\x01\x09\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		"a setting twice":         setting("\x06\x00\x01\x00n\x06\x00\x01\x00n"),
		"settings out of order":   setting("\x07\x00\x01\x00n\x06\x00\x01\x00n"),
		"settings that are long":  setting("\x01\x80\x00\xf0" + strings.Repeat("n", 0xf000)),
		"features out of order":   list(tagOptionalFeatures, "b", "a"),
		"a feature twice":         list(tagOptionalFeatures, "a", "a"),
		"a feature without bytes": list(tagRequiredFeatures, ""),
		"too many features":       list(tagOptionalFeatures, manyNames(featuresMax+1)...),
		"a long unknown field":    append(appendField(nil, tagIgnorable, unknownSizeMax+1), make([]byte, unknownSizeMax+1)...),
	} {
		if e, err := DecodeEdit(p); !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	_, err := DecodeEdit(list(tagPutKeyspaces, "\x01\x00\x00\x00\x01\x01n"+"\x63\x00\x01\x00x"))
	if !errors.Is(err, base.ErrVersion) || !strings.Contains(err.Error(), `keyspace 1 "n"`) || !strings.Contains(err.Error(), "tag 99") {
		t.Errorf("a setting of a later version: %v", err)
	}
	// Names are checked where the table is known.
	snapshot := firstState().snapshot().AppendTo(nil)
	_, err = loadFrames(t, func(b *record.Builder) {
		b.Record(snapshot, 0)
		b.Record(Edit{PutKeyspaces: []*Keyspace{{Number: 1, Name: "n"}}}.AppendTo(nil), 0)
	})
	if !errors.Is(err, base.ErrCorrupt) {
		t.Errorf("a keyspace above the counter: %v", err)
	}
}

// An edit costs what it changes.
func TestKeyspace_EditOfOneAmongManyIsSmall(t *testing.T) {
	t.Parallel()
	s, err := firstState().Apply(manyKeyspaces(1000))
	must(t, err)
	changed := *s.Keyspaces[500]
	changed.Settings.NumVersions++
	e := Edit{PutKeyspaces: []*Keyspace{&changed}}
	if n := len(e.AppendTo(nil)); n > 100 {
		t.Errorf("the edit takes %d bytes", n)
	}
	next, err := s.Apply(e)
	must(t, err)
	if next.Keyspaces[499] != s.Keyspaces[499] || s.Keyspaces[500].Settings == next.Keyspaces[500].Settings {
		t.Error("the edit copied other keyspaces, or changed the old table")
	}
	if n := len(s.snapshot().AppendTo(nil)); n > 100_000 {
		t.Errorf("a snapshot takes %d bytes", n)
	}
}

// manyKeyspaces returns an edit that makes n keyspaces.
func manyKeyspaces(n int) Edit {
	e := Edit{NextKeyspace: Some(uint32(n + 1))}
	for i := range n {
		e.PutKeyspaces = append(e.PutKeyspaces, &Keyspace{Number: uint32(i + 1), Name: fmt.Sprintf("keyspace-%d", i),
			Settings: Settings{NumVersions: 2, Compression: 2, ValueThreshold: 512, LargeValueThreshold: 4096}})
	}
	return e
}
