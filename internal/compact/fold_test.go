package compact

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// adder is a merge function that appends operands.
type adder struct{}

func (adder) Name() string { return "adder" }

func (adder) Merge(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
	return append(append(dst, existing...), bytes.Join(operands, nil)...), nil
}

// partialEntries returns random versions of a few keys, in order. Sequence numbers begin
// above 10. The time of a step is its sequence number.
func partialEntries(rng *rand.Rand, n int) []base.Entry {
	all := make([]base.Entry, n)
	for i := range all {
		e := base.Entry{Key: fmt.Appendf(nil, "key-%05d", rng.IntN(4)), Seq: base.SeqNum(11 + i)}
		switch at := uint64(e.Seq); rng.IntN(8) {
		case 0:
			e.Meta.Kind = base.KindDelete
		case 1, 2:
			e.Meta.Kind, e.Value = base.KindSet, fmt.Appendf(nil, "v%d.", e.Seq)
			e.Meta.ExpiresAt = rng.Uint64N(2) * (at + rng.Uint64N(30))
		case 3, 4:
			e.Meta.Kind, e.Value = base.KindRenew, partial.AppendRenewal(nil, at, rng.Uint64N(2)*(at+rng.Uint64N(30)))
		default:
			e.Meta.Kind, e.Value = base.KindMerge, partial.AppendOperand(nil, at, fmt.Appendf(nil, "+%d", e.Seq))
		}
		all[i] = e
	}
	slices.SortFunc(all, compareEntries)
	return all
}

// shown returns what a snapshot shows of a key at a time.
func shown(t *testing.T, all []base.Entry, l *rangedel.List, key string, at base.SeqNum, nowMs uint64) string {
	t.Helper()
	var c partial.Chain
	partials := false
	on := base.Entry{Meta: base.Meta{Kind: base.KindDelete}}
	cover := l.Cover([]byte(key), at)
	for _, e := range all {
		if string(e.Key) != key || e.Seq > at {
			continue
		}
		if e.Seq < cover {
			break
		}
		if !e.Meta.Kind.Partial() {
			on = e
			break
		}
		c.Add(e.Meta.Kind, e.Value)
		partials = true
	}
	o := partial.Outcome{Base: partial.Base{Present: on.Meta.Kind.HasValue(), Expires: on.Meta.ExpiresAt}, FromBase: true}
	var err error
	if partials {
		if o, err = c.Over(o.Base); err != nil {
			t.Fatal(err)
		}
	}
	if !o.Present || o.Expires != 0 && o.Expires <= nowMs {
		return "nothing"
	}
	value := on.Value
	if len(o.Operands) > 0 {
		if value, err = o.Value(adder{}, []byte(key), value); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%s until %d", value, o.Expires)
}

// TestFold_ChangesNoAnswer merges random partial entries, with the function or without
// it, and compares what each snapshot sees before and after.
func TestFold_ChangesNoAnswer(t *testing.T) {
	t.Parallel()
	for seed := range seeds(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		n := 1 + rng.IntN(60)
		all := partialEntries(rng, n)
		last := base.SeqNum(10 + n)
		rules := Rules{Versions: 1 + rng.IntN(2), NowMs: rng.Uint64N(2) * uint64(last), Bottom: rng.IntN(2) == 0}
		most, apart := 2+rng.IntN(6), []int{3, 30}[rng.IntN(2)]
		for s := base.SeqNum(10 + rng.IntN(20)); s < last && len(rules.Snapshots) < most; s += base.SeqNum(1 + rng.IntN(apart)) {
			rules.Snapshots = append(rules.Snapshots, s)
		}
		rules.Snapshots = append(rules.Snapshots, last)
		out := files{fs: memfs.New()}
		job := Job{Sources: []iter.Source{&entrySource{entries: all}}, Rules: rules, Level: 3, TableSize: 1 << 20, NewFile: out.create}
		job.Deletions = randomDeletions(rng, 4+n)
		if rng.IntN(3) > 0 {
			job.Functions = partial.NewFunctions(func([]byte) string { return "adder" }, []partial.Function{adder{}})
		}
		var below []base.Entry
		if !rules.Bottom {
			for k := range 4 {
				below = append(below, base.Entry{Key: fmt.Appendf(nil, "key-%05d", k), Value: []byte("below"),
					Meta: base.Meta{Kind: base.KindSet, ExpiresAt: rng.Uint64N(40)}})
			}
		}
		result, err := Run(job)
		if err != nil {
			t.Fatal(err)
		}
		got := out.read(t, result.Tables)
		for _, at := range rules.Snapshots {
			for _, now := range []uint64{max(rules.NowMs, uint64(last)), uint64(last) + 9, 1 << 40} {
				for k := range 4 {
					key := fmt.Sprintf("key-%05d", k)
					before := shown(t, append(slices.Clone(all), below...), job.Deletions, key, at, now)
					after := shown(t, append(slices.Clone(got), below...), job.Deletions, key, at, now)
					if before != after {
						t.Fatalf("seed %d, rules %+v: snapshot %d at %d shows %s of %s, before the merge %s", seed, rules, at, now, after, key, before)
					}
				}
			}
		}
	}
}

// The operand stays partial, because its function is not registered. The renewals below it
// become whole, and the value that they end goes with them.
func TestFold_AValueDoesNotComeBackUnderAFoldedRenewal(t *testing.T) {
	t.Parallel()
	entry := func(seq base.SeqNum, kind base.Kind, value []byte) base.Entry {
		return base.Entry{Key: []byte("k"), Seq: seq, Value: value, Meta: base.Meta{Kind: kind}}
	}
	all := []base.Entry{
		entry(13, base.KindMerge, partial.AppendOperand(nil, 60, []byte("+"))),
		entry(12, base.KindRenew, partial.AppendRenewal(nil, 55, 999)),
		entry(11, base.KindRenew, partial.AppendRenewal(nil, 20, 30)),
		entry(5, base.KindSet, []byte("value")),
	}
	out := files{fs: memfs.New()}
	result, err := Run(Job{Sources: []iter.Source{&entrySource{entries: all}}, Level: 3, TableSize: 1 << 20, NewFile: out.create,
		Rules: Rules{Versions: 1, Snapshots: []base.SeqNum{11, 12, 13}, NowMs: 50, Bottom: true}})
	if err != nil {
		t.Fatal(err)
	}
	got := out.read(t, result.Tables)
	for _, at := range []base.SeqNum{11, 12, 13} {
		if before, after := shown(t, all, nil, "k", at, 70), shown(t, got, nil, "k", at, 70); before != after {
			t.Errorf("snapshot %d shows %s, before the merge %s", at, after, before)
		}
	}
	if slices.ContainsFunc(got, func(e base.Entry) bool { return e.Seq == 5 }) {
		t.Error("the value stays, although no entry needs it")
	}
}

// TestFold_LeavesOneEntryForEachSnapshot folds long chains.
func TestFold_LeavesOneEntryForEachSnapshot(t *testing.T) {
	t.Parallel()
	for _, registered := range []bool{true, false} {
		var all []base.Entry
		for seq := base.SeqNum(1000); seq > 0; seq-- {
			all = append(all, base.Entry{Key: []byte("k"), Seq: seq, Value: partial.AppendOperand(nil, uint64(seq), []byte("+")),
				Meta: base.Meta{Kind: base.KindMerge}})
		}
		out := files{fs: memfs.New()}
		job := Job{Sources: []iter.Source{&entrySource{entries: all}}, Level: 3, TableSize: 1 << 20, NewFile: out.create,
			Rules: Rules{Versions: 1, Snapshots: []base.SeqNum{400, 1000}, Bottom: true}}
		if registered {
			job.Functions = partial.NewFunctions(func([]byte) string { return "adder" }, []partial.Function{adder{}})
		}
		result, err := Run(job)
		if err != nil {
			t.Fatal(err)
		}
		got := out.read(t, result.Tables)
		if len(got) != 2 || got[0].Seq != 1000 || got[1].Seq != 400 || got[0].Meta.Kind.Partial() == registered {
			t.Errorf("registered %v: %d entries, the first %s#%d", registered, len(got), got[0].Meta.Kind, got[0].Seq)
		}
	}
}

// TestScreen_AsksAboutLiveValuesThatOnlyThePresentSees merges one version for each case.
func TestScreen_AsksAboutLiveValuesThatOnlyThePresentSees(t *testing.T) {
	t.Parallel()
	const now = 100
	present := []base.SeqNum{9}
	for _, c := range []struct {
		seq       base.SeqNum
		snapshots []base.SeqNum
		above     bool
		bottom    bool
		expires   uint64
		cover     base.SeqNum // of a range tombstone over the key
		asked     bool
		want      string // of the output
	}{
		{seq: 5, snapshots: present, bottom: true, asked: true},
		{seq: 5, snapshots: present, asked: true, want: "DEL"},
		{seq: 5, snapshots: []base.SeqNum{3, 9}, bottom: true, asked: true, want: "DEL"}, // a transaction may conflict with it
		{seq: 5, snapshots: []base.SeqNum{6, 9}, bottom: true, want: "SET"},
		{seq: 5, snapshots: present, above: true, bottom: true, want: "SET"},
		{seq: 12, snapshots: present, bottom: true, want: "SET"},
		{seq: 5, snapshots: present, bottom: true, expires: now},
		{seq: 5, snapshots: present, bottom: true, expires: now + 1, asked: true},
		{seq: 5, snapshots: present, bottom: true, cover: 6},
		{seq: 5, snapshots: present, bottom: true, cover: 5, asked: true}, // of the same transaction, before the value
	} {
		out := files{fs: memfs.New()}
		asked := false
		job := Job{Level: 3, TableSize: 1 << 20, NewFile: out.create,
			Sources: []iter.Source{&entrySource{entries: []base.Entry{{Key: []byte("k"), Seq: c.seq,
				Meta: base.Meta{Kind: base.KindSet, ExpiresAt: c.expires}}}}},
			Rules: Rules{Versions: 1, Snapshots: c.snapshots, Bottom: c.bottom, NowMs: now, Above: func([]byte) bool { return c.above }},
			Screen: func(*base.Entry) (Decision, []byte) {
				asked = true
				return ScreenDrop, nil
			}}
		if c.cover > 0 {
			job.Deletions = rangedel.Build([]rangedel.Deletion{{Lo: []byte("k"), Hi: []byte("l"), Seq: c.cover}})
		}
		result, err := Run(job)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, e := range out.read(t, result.Tables) {
			got += e.Meta.Kind.String()
		}
		if got != c.want || asked != c.asked {
			t.Errorf("%+v: the output is %q, asked %t", c, got, asked)
		}
	}
}

// A newer partial entry elsewhere may refer to the newest version.
func TestRetain_ExpiredValuesUnderPartialEntriesStay(t *testing.T) {
	t.Parallel()
	for _, above := range []bool{true, false} {
		r := NewRetain(Rules{Versions: 1, Snapshots: []base.SeqNum{9}, NowMs: 100, Bottom: true,
			Above: func([]byte) bool { return above }}, nil)
		r.Begin([]byte("k"))
		m := base.Meta{Kind: base.KindSet, ExpiresAt: 50}
		if got := r.Judge(5, &m); (got == Keep) != above {
			t.Errorf("above %v: verdict %d", above, got)
		}
	}
}
