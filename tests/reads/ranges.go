package reads

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/stoatdb/stoat"
)

// A part is a range of keys of a keyspace. nil is no bound.
type part struct {
	space  string
	lo, hi []byte
}

// drawPart draws a range.
func (l *life) drawPart() (p part) {
	p.space = l.space()
	a, b := l.key(), l.key()
	if l.rng.IntN(3) > 0 {
		p.lo = []byte(min(a, b))
	}
	if l.rng.IntN(3) > 0 {
		p.hi = []byte(max(a, b))
	}
	return p
}

func (p *part) String() string { return fmt.Sprintf("keyspace %q, %q to %q", p.space, p.lo, p.hi) }

// has reports whether a key of the model lies in the range.
func (p *part) has(modelKey string) bool {
	name, key, _ := strings.Cut(modelKey, "/")
	return name == p.space && key >= string(p.lo) && (p.hi == nil || key < string(p.hi))
}

// blockKeys is more than the keys of a block. An estimate is good to about that at each
// bound, in each table.
const blockKeys = 200

// sources returns how many tables may have one key.
func sources(s *stoat.Stats) (n int64) {
	for i := range s.Levels {
		if tables := int64(s.Levels[i].Tables); i == 0 {
			n += tables
		} else {
			n += min(1, tables)
		}
	}
	return n
}

// estimate compares an estimate with the bounds that its comment promises.
func (l *life) estimate() error {
	p := l.drawPart()
	before := l.db.Stats()
	e, err := l.db.EstimateRange(l.spaces[p.space], p.lo, p.hi)
	if err != nil {
		return err
	}
	after := l.db.Stats()
	// Each key that is there is in some memtable or table. There is no more than what the last
	// compaction left, and was written since. A deletion takes at most one away, wherever it
	// is in its table.
	live, most := int64(0), int64(0)
	for _, key := range l.m.Keys() {
		if !p.has(key) {
			continue
		}
		if v, ok := l.m.Newest(key, l.m.Last()); ok && !v.Deleted && v.ExpiresAt == 0 {
			live++
		}
		if v, ok := l.m.Newest(key, l.base); ok && !v.Deleted {
			most++
		}
	}
	for seq := l.base + 1; seq <= l.m.Last(); seq++ {
		for _, w := range l.m.Writes(seq) {
			if p.has(w.Key) && !w.ByRange {
				most++
			}
		}
	}
	slack := 2 * blockKeys * max(sources(&before), sources(&after))
	if deletions := int64(l.deletions); e.Keys < live-deletions-slack || e.Keys > most+deletions+slack {
		return fmt.Errorf("%v: the estimate is %d keys; there are %d, %d with what no merge need have dropped, and %d deletions; slack %d",
			&p, e.Keys, live, most, deletions, slack)
	}
	if e.Keys > slack && e.Bytes <= 0 {
		return fmt.Errorf("%v: the estimate is %+v", &p, e)
	}
	l.work.Estimates++
	return nil
}

// split demands that splits ascend within their range, and that there are some.
func (l *life) split() error {
	p := l.drawPart()
	n := 1 + l.rng.IntN(5)
	if l.rng.IntN(2) == 0 {
		n += 1 << l.rng.IntN(15) // many parts have one key
		if l.rng.IntN(2) == 0 {
			p.lo, p.hi = []byte(keyOf(hot-1)), []byte(keyOf(hot+hotKeys))
		}
	}
	cuts, err := l.db.SplitRange(l.spaces[p.space], p.lo, p.hi, n)
	if err != nil {
		return err
	}
	last := p.lo
	for _, key := range cuts {
		if bytes.Compare(key, last) <= 0 || p.hi != nil && bytes.Compare(key, p.hi) >= 0 {
			return fmt.Errorf("%v: of %d cuts, %q follows %q", &p, len(cuts), key, last)
		}
		last = key
	}
	live := 0
	for _, key := range l.m.Keys() {
		if v, ok := l.m.Newest(key, l.m.Last()); ok && !v.Deleted && p.has(key) {
			live++
		}
	}
	// A block of pointers to long values is not split, and may weigh as much as many others.
	if len(cuts) >= n || n >= 100 && len(cuts) < 2 && live > 20*blockKeys {
		return fmt.Errorf("%v: %d cuts for %d parts of %d keys", &p, len(cuts), n, live)
	}
	l.work.Cuts += len(cuts)
	return nil
}
