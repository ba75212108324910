package turns

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// claim returns the claim of the keys from a to b, such as "a-c". "a" is one key, and "a-"
// has no end.
func claim(of string) Claim {
	lo, hi, ranged := strings.Cut(of, "-")
	switch {
	case !ranged:
		return Claim{[]byte(lo), []byte(lo + "\x00")}
	case hi == "":
		return Claim{Lo: []byte(lo)}
	}
	return Claim{[]byte(lo), []byte(hi)}
}

// A queue tells the order in which places get their turns.
type queue struct {
	t     *testing.T
	line  Line
	turns chan string
}

// inQueue runs do with a queue in a bubble, where time passes at once.
func inQueue(t *testing.T, do func(t *testing.T, q *queue)) {
	synctest.Test(t, func(t *testing.T) { do(t, &queue{t: t, turns: make(chan string, 100)}) })
}

// join adds a place with claims, and lets it wait for its turn.
func (q *queue) join(name string, claims ...string) *Place {
	return q.joinUntil(q.t.Context(), name, claims...)
}

// joinUntil is join for a place that waits until ctx ends.
func (q *queue) joinUntil(ctx context.Context, name string, claims ...string) *Place {
	p := new(Place)
	for _, c := range claims {
		q.line.Join(p, claim(c))
	}
	go func() {
		if err := p.Wait(ctx, nil); err != nil {
			name += " " + err.Error()
		}
		q.turns <- name
	}()
	synctest.Wait()
	return p
}

// told returns what has happened since the last call.
func (q *queue) told() (all string) {
	synctest.Wait()
	for len(q.turns) > 0 {
		all += <-q.turns + " "
	}
	return strings.TrimSpace(all)
}

func (q *queue) expect(want string) {
	q.t.Helper()
	if got := q.told(); got != want {
		q.t.Errorf("turns of %q, want %q", got, want)
	}
}

func TestLine_UpdatesOfOneKeyGoInTheOrderOfJoining(t *testing.T) {
	t.Parallel()
	inQueue(t, func(t *testing.T, q *queue) {
		a, b, c := q.join("a", "k"), q.join("b", "k"), q.join("c", "k")
		other := q.join("other", "l")
		q.expect("a other")
		a.Leave()
		q.expect("b")
		b.Leave()
		q.expect("c")
		c.Leave()
		other.Leave()
		if n := q.line.n.Load(); n != 0 || len(q.line.places) != 0 {
			t.Errorf("%d places are left", n)
		}
	})
}

func TestLine_RangesWaitForWhatTheyOverlap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first, second string
		waits         bool
	}{
		{"a-c", "b-d", true}, {"a-c", "c-d", false}, {"c-d", "a-c", false}, {"a-", "z", true},
		{"b-", "a", false}, {"a", "a-", true}, {"b", "a-c", true}, {"c", "a-c", false},
	} {
		inQueue(t, func(t *testing.T, q *queue) {
			first := q.join("first", c.first)
			second := q.join("second", c.second)
			if got, want := q.told(), map[bool]string{true: "first", false: "first second"}[c.waits]; got != want {
				t.Errorf("%s and %s: turns of %q, want %q", c.first, c.second, got, want)
			}
			first.Leave()
			synctest.Wait()
			second.Leave()
		})
	}
}

func TestLine_AnUpdateWithSeveralClaimsWaitsForAllOfThem(t *testing.T) {
	t.Parallel()
	inQueue(t, func(t *testing.T, q *queue) {
		a, b := q.join("a", "k"), q.join("b", "l")
		both := q.join("both", "k", "l")
		q.expect("a b")
		b.Leave()
		q.expect("")
		a.Leave()
		q.expect("both")
		both.Leave()
	})
}

// An update that ran, and lost to one behind it, keeps its place before that one.
func TestLine_AnUpdateThatLosesAgainKeepsItsPlace(t *testing.T) {
	t.Parallel()
	inQueue(t, func(t *testing.T, q *queue) {
		a, b := q.join("a", "k"), q.join("b", "l")
		q.expect("a b")
		again := func(p *Place, name, lost string) {
			q.line.Join(p, claim(lost))
			go func() {
				_ = p.Wait(t.Context(), nil)
				q.turns <- name
			}()
		}
		again(a, "a again", "l") // waits for b, which runs
		q.expect("")
		again(b, "b again", "k") // lets a go first
		q.expect("a again")
		a.Leave()
		q.expect("b again")
		b.Leave()
	})
}

func TestLine_ManyClaimsBecomeOne(t *testing.T) {
	t.Parallel()
	inQueue(t, func(t *testing.T, q *queue) {
		many := q.join("many", "b", "f", "c", "d", "e")
		between := q.join("between", "dd")
		outside := q.join("outside", "g")
		q.expect("many outside")
		many.Leave()
		q.expect("between")
		between.Leave()
		outside.Leave()
	})
}

func TestLine_WaitsEndWithTheirContextAndWithTheDatabase(t *testing.T) {
	t.Parallel()
	inQueue(t, func(t *testing.T, q *queue) {
		first := q.join("first", "k")
		ctx, cancel := context.WithCancel(t.Context())
		second := q.joinUntil(ctx, "second", "k")
		third, stop := new(Place), make(chan struct{})
		q.line.Join(third, claim("k"))
		ended := make(chan error, 1)
		go func() { ended <- third.Wait(t.Context(), stop) }()
		q.expect("first")
		cancel()
		q.expect("second " + context.Canceled.Error())
		second.Leave()
		close(stop)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		third.Leave()
		first.Leave()
	})
}

// An update may wait, within its function, for the one behind it.
func TestLine_NoUpdateWaitsForever(t *testing.T) {
	t.Parallel()
	inQueue(t, func(t *testing.T, q *queue) {
		first, began := q.join("first", "k"), time.Now()
		q.join("second", "k")
		q.join("third", "k")
		for _, want := range []string{"first", "second", "third"} {
			if got := <-q.turns; got != want {
				t.Errorf("turn of %s, want %s", got, want)
			}
		}
		if waited := time.Since(began); waited < 2*patienceMin || waited > 3*patienceMin {
			t.Errorf("the third waited for %v, want %v", waited, 2*patienceMin)
		}
		first.Leave()
	})
}

// Ten thousand updates of one key would otherwise spend all processors on looking.
func TestLine_UpdatesFarBackLookRarely(t *testing.T) {
	t.Parallel()
	inQueue(t, func(t *testing.T, q *queue) {
		places := make([]Place, 2*lookMax)
		for i := range places {
			q.line.Join(&places[i], claim("k"))
		}
		if before, _ := places[0].look(nil); before != nil {
			t.Fatal("the first place has no turn")
		}
		for i, want := range map[int]time.Duration{
			1: patienceMin, 2: patienceMin, nearMax: patienceMin,
			nearMax + 1: (nearMax + 1) * patienceMin, len(places) - 1: lookMax * patienceMin,
		} {
			if before, left := places[i].look(nil); before != &places[i-1] || left != want {
				t.Errorf("place %d waits for %v, want %v for the place before it", i, left, want)
			}
		}
	})
}

// The update before one that waits far back may come to run soon, and then run for long.
func TestLine_UpdatesFarBackWaitNoLongerForOneThatRuns(t *testing.T) {
	t.Parallel()
	inQueue(t, func(t *testing.T, q *queue) {
		places := make([]*Place, 2*nearMax)
		for i := range places {
			places[i] = q.join("", "k")
			synctest.Wait()
		}
		for range len(places) - 2 {
			<-q.turns
			places[0].Leave()
			places = places[1:]
		}
		<-q.turns // of the last but one, which goes on
		began := time.Now()
		<-q.turns
		if waited := time.Since(began); waited != patienceMin {
			t.Errorf("the last one waited for %v, want %v", waited, patienceMin)
		}
		for _, p := range places {
			p.Leave()
		}
	})
}

// The others wait longer for an update whose last run was long. So it does not lose forever
// to updates that are shorter.
func TestLine_LongUpdatesGetMoreTime(t *testing.T) {
	t.Parallel()
	for run, want := range map[time.Duration]time.Duration{
		0: patienceMin, 100 * time.Millisecond: 200 * time.Millisecond, time.Hour: patienceMax,
	} {
		inQueue(t, func(t *testing.T, q *queue) {
			long := q.join("long", "k")
			time.Sleep(run)
			q.line.Join(long, claim("l"))
			if err := long.Wait(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			q.join("short", "l")
			<-q.turns // of long
			<-q.turns
			if waited := time.Since(began); waited < want || waited > want+10*time.Millisecond {
				t.Errorf("after a run of %v: waited for %v, want %v", run, waited, want)
			}
		})
	}
}

// A readKeys is what an update has read.
type readKeys string

func (r readKeys) Intersects(lo, hi []byte) bool {
	return claim(string(r)).overlaps(Claim{lo, hi})
}

func TestLine_MeetsTheClaimsOfOthers(t *testing.T) {
	t.Parallel()
	var line Line
	if _, ok := line.Meets(readKeys("a-")); ok {
		t.Error("an empty line has a claim")
	}
	var p Place
	line.Join(&p, claim("k-m"))
	if got, ok := line.Meets(readKeys("l")); !ok || string(got.Lo) != "k" {
		t.Errorf("meets %q, %t", got, ok)
	}
	if got, ok := line.Meets(readKeys("m")); ok {
		t.Errorf("meets %q", got)
	}
	p.Leave()
	p.Leave()
	if _, ok := line.Meets(readKeys("l")); ok {
		t.Error("a claim has stayed")
	}
}

func TestPlace_WaitsAtOnceWithoutOthers(t *testing.T) {
	t.Parallel()
	var line Line
	var p Place
	line.Join(&p, claim("k"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Wait(ctx, nil); errors.Is(err, context.Canceled) {
		t.Error("a turn that is free was refused")
	}
	p.Leave()
}

// BenchmarkLine_LongLine measures a turn of one of ten thousand updates of one key.
func BenchmarkLine_LongLine(b *testing.B) {
	const updates = 10_000
	for b.Loop() {
		var line Line
		var running sync.WaitGroup
		for range updates {
			p := new(Place)
			line.Join(p, claim("k"))
			running.Go(func() {
				_ = p.Wait(b.Context(), nil)
				p.Leave()
			})
		}
		running.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/updates, "us/turn")
}
