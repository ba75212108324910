package compact

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/testing/script"
)

// A keyVersion is one version of a key in a test.
type keyVersion struct {
	key  string
	seq  base.SeqNum
	meta base.Meta
}

// retained applies the rules to versions in order.
func retained(rules Rules, covers *rangedel.List, versions []keyVersion) []keyVersion {
	r := NewRetain(rules, covers)
	var kept []keyVersion
	for i, v := range versions {
		if i == 0 || v.key != versions[i-1].key {
			r.Begin([]byte(v.key))
		}
		switch r.Judge(v.seq, &v.meta) {
		case KeepTombstone:
			v.meta = base.Meta{Kind: base.KindDelete}
			kept = append(kept, v)
		case Keep:
			kept = append(kept, v)
		}
	}
	return kept
}

// The cases are in testdata/retain. An entry is written key#seq KIND, optionally with
// @expiry; deletions=lo-hi#seq,… are range tombstones.
func TestRetain_Scripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/retain", func(*testing.T) script.Handler {
		return func(t *testing.T, c *script.Command) string {
			if c.Name != "retain" {
				c.Unknown(t)
			}
			rules := Rules{Versions: int(c.Int(t, "versions", 1)), NowMs: uint64(c.Int(t, "now", 0)), Bottom: c.Has("bottom")}
			for _, s := range strings.Split(c.String("snapshots", "100"), ",") {
				rules.Snapshots = append(rules.Snapshots, mustSeq(t, s))
			}
			var deletions []rangedel.Deletion
			if list, ok := c.Lookup("deletions"); ok {
				for _, d := range strings.Split(list, ",") {
					bounds, seq, _ := strings.Cut(d, "#")
					lo, hi, _ := strings.Cut(bounds, "-")
					deletions = append(deletions, rangedel.Deletion{Lo: []byte(lo), Hi: []byte(hi), Seq: mustSeq(t, seq)})
				}
			}
			var versions []keyVersion
			for _, line := range c.Lines() {
				versions = append(versions, mustVersion(t, line))
			}
			var out strings.Builder
			for _, v := range retained(rules, rangedel.Build(deletions), versions) {
				out.WriteString(v.String() + "\n")
			}
			return out.String()
		}
	})
}

func (v keyVersion) String() string {
	s := fmt.Sprintf("%s#%d %s", v.key, v.seq, v.meta.Kind)
	if v.meta.ExpiresAt != 0 {
		s += fmt.Sprintf("@%d", v.meta.ExpiresAt)
	}
	return s
}

func mustSeq(t *testing.T, s string) base.SeqNum {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 48)
	if err != nil {
		t.Fatal(err)
	}
	return base.SeqNum(n)
}

func mustVersion(t *testing.T, line string) keyVersion {
	t.Helper()
	name, kind, _ := strings.Cut(line, " ")
	key, seq, _ := strings.Cut(name, "#")
	kind, expiry, expires := strings.Cut(kind, "@")
	v := keyVersion{key: key, seq: mustSeq(t, seq)}
	for k := base.KindDelete; k <= base.KindPointer; k++ {
		if k.String() == kind {
			v.meta.Kind = k
		}
	}
	if v.meta.Kind == 0 {
		t.Fatalf("%q: unknown kind", line)
	}
	if expires {
		v.meta.ExpiresAt = uint64(mustSeq(t, expiry))
	}
	return v
}

// The test compares, for random histories of a key, what every snapshot sees before and after,
// now and later, with and without older versions below.
func TestRetain_KeepsWhatSnapshotsSee(t *testing.T) {
	t.Parallel()
	for seed := range seeds(6_000) {
		h := randomHistory(rand.New(rand.NewPCG(seed, 1)))
		after := retained(h.rules, h.covers, h.versions)
		if diff := h.difference(after); diff != "" {
			t.Fatalf("seed %d: %s\nrules %+v\ndeletions %v\nbefore %v\nafter  %v",
				seed, diff, h.rules, h.deletions, h.versions, after)
		}
	}
}

// A history is the versions of one key, here and below, and the rules.
type history struct {
	rules           Rules
	deletions       []rangedel.Deletion
	covers          *rangedel.List
	versions, below []keyVersion
}

func randomHistory(rng *rand.Rand) history {
	h := history{rules: Rules{Versions: 1 + rng.IntN(3)*rng.IntN(2), NowMs: uint64(rng.IntN(2) * 50), Bottom: rng.IntN(2) == 0}}
	for s := base.SeqNum(1 + rng.IntN(20)); len(h.rules.Snapshots) < 1+rng.IntN(4); s += base.SeqNum(1 + rng.IntN(6)) {
		h.rules.Snapshots = append(h.rules.Snapshots, s)
	}
	random := func(from, to int) []keyVersion {
		var versions []keyVersion
		for seq := to; seq > from; seq-- {
			if rng.IntN(2) == 0 {
				continue
			}
			v := keyVersion{key: "k", seq: base.SeqNum(seq), meta: base.Meta{Kind: base.KindDelete + base.Kind(rng.IntN(3))}}
			if v.meta.Kind.HasValue() && rng.IntN(2) == 0 {
				v.meta.ExpiresAt = uint64(1 + rng.IntN(100))
			}
			versions = append(versions, v)
		}
		return versions
	}
	h.versions = random(5, 6+rng.IntN(25))
	if !h.rules.Bottom {
		h.below = random(0, 5)
	}
	for range rng.IntN(3) * rng.IntN(2) {
		h.deletions = append(h.deletions, rangedel.Deletion{Lo: []byte("k"), Hi: []byte("l"), Seq: base.SeqNum(6 + rng.IntN(25))})
	}
	h.covers = rangedel.Build(h.deletions)
	return h
}

// difference describes how the histories before and after differ.
func (h *history) difference(after []keyVersion) string {
	deletionsAfter := h.covers.Retain(h.rules.Snapshots, h.rules.Bottom)
	oldest, visible := h.rules.Snapshots[0], h.rules.Snapshots[len(h.rules.Snapshots)-1]
	for at := oldest; at < 40; at++ {
		if at < visible && !slices.Contains(h.rules.Snapshots, at) {
			continue
		}
		for now := h.rules.NowMs; now <= 110; now += 5 {
			want := seen(slices.Concat(h.versions, h.below), h.covers, at, now)
			got := seen(slices.Concat(after, h.below), deletionsAfter, at, now)
			if got != want {
				return fmt.Sprintf("snapshot %d at %d ms sees version %d, before %d", at, now, got, want)
			}
		}
		if got, want := changedSince(after, deletionsAfter, at), changedSince(h.versions, h.covers, at); got != want {
			return fmt.Sprintf("changed since %d: %t, before %t", at, got, want)
		}
	}
	return h.surplus(after)
}

// seen returns the number of the live version that a snapshot sees, or 0.
func seen(versions []keyVersion, covers *rangedel.List, at base.SeqNum, nowMs uint64) base.SeqNum {
	for _, v := range versions {
		if v.seq > at {
			continue
		}
		if v.meta.Live(nowMs) && covers.Cover([]byte(v.key), at) <= v.seq {
			return v.seq
		}
		return 0
	}
	return 0
}

// changedSince reports whether a transaction that read the key at a snapshot must notice a
// later write.
func changedSince(versions []keyVersion, covers *rangedel.List, at base.SeqNum) bool {
	return len(versions) > 0 && versions[0].seq > at || covers.Cover([]byte("k"), base.SeqNumMax) > at
}

// surplus names a kept value that no reader can see.
func (h *history) surplus(after []keyVersion) string {
	snapshots := h.rules.Snapshots
	last := snapshots[len(snapshots)-1]
	count := 0
	ended := false
	for _, v := range after {
		if v.seq > last {
			continue
		}
		count++
		needed := count <= h.rules.Versions && !ended
		for _, s := range snapshots {
			needed = needed || seen(after, h.covers, s, h.rules.NowMs) == v.seq
		}
		if !v.meta.Kind.HasValue() {
			ended = true
		} else if !needed {
			return fmt.Sprintf("version %d is kept and not needed", v.seq)
		}
	}
	return ""
}

func BenchmarkRetain(b *testing.B) {
	for _, snapshots := range []int{1, 3, 64} {
		b.Run(fmt.Sprintf("snapshots=%d", snapshots), func(b *testing.B) {
			rules := Rules{Versions: 1}
			for i := range snapshots {
				rules.Snapshots = append(rules.Snapshots, base.SeqNum(1000+i))
			}
			r := NewRetain(rules, nil)
			key, m := []byte("key"), base.Meta{Kind: base.KindSet}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				r.Begin(key)
				n += int(r.Judge(900+base.SeqNum(n&127), &m))
			}
		})
	}
}
