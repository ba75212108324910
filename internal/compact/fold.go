package compact

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/values"
)

// joinMax is the size in bytes from which partial entries are not joined any more.
const joinMax = 256 << 10

// A chain is consecutive partial entries of one key, the newest first, in memory of its
// own.
type chain []link

// A link is a partial entry of a chain. A link that is not kept is a part of the next
// newer kept one: no snapshot sees it without that one.
type link struct {
	base.Entry
	kept, newest bool
}

// meet handles the next entry of the key. It collects partial entries, until the whole
// entry below them or their end is known.
func (m *merge) meet(e *base.Entry) error {
	if n := len(m.chain); n > 0 && m.retain.splits(m.chain[n-1].Seq, e.Seq) {
		if err := m.fold(&whole{known: true}, nil); err != nil {
			return err
		}
	}
	switch {
	case e.Meta.Kind.Partial():
		newest := m.retain.newest
		kept := m.retain.Link(e.Seq) == Keep
		if mutant.On(mutant.FoldAcrossSnapshot) {
			kept = len(m.chain) == 0
		}
		if !kept && len(m.chain) == 0 {
			return nil // a newer whole entry hides it from all snapshots
		}
		own := *e
		own.Key, own.Value = m.key, bytes.Clone(e.Value)
		m.chain = append(m.chain, link{own, kept, newest})
		return nil
	case len(m.chain) > 0:
		return m.endChain(e)
	}
	return m.judge(e)
}

// endChain handles the collected chain, if there is one. below is the whole entry below
// it, or nil at the end of the key.
func (m *merge) endChain(below *base.Entry) error {
	if len(m.chain) == 0 {
		return nil
	}
	if below != nil {
		// The verdict on the base may make a tombstone of it. The chain needs what it was.
		return m.fold(&whole{known: true, Entry: *below}, below)
	}
	end := whole{known: m.job.Rules.Bottom}
	if oldest := m.chain[len(m.chain)-1].Seq; m.retain.splits(oldest, 0) {
		end.known = true
	}
	return m.fold(&end, nil)
}

// A whole is the whole entry below a chain. The zero whole stands for no entry.
type whole struct {
	base.Entry
	known bool
	made  bool // by a fold: the value may have to go to a value file
}

// fold writes what becomes of the chain and of the whole entry below it, which may be
// nil. It makes one entry of each kept link and those that are a part of it: a whole
// one if possible.
func (m *merge) fold(on *whole, below *base.Entry) error {
	links := m.chain
	defer func() {
		clear(m.chain)
		m.chain = m.chain[:0]
	}()
	var out []whole // the oldest first
	needed := false // whether an entry stays that needs the base
	for to := len(links); to > 0; {
		from := to - 1
		for from > 0 && !links[from].kept {
			from--
		}
		if on.known {
			if made, ok := m.foldOnto(on, links[from:to]); ok {
				on, out, to = made, append(out, *made), from
				continue
			}
			needed, on = len(out) == 0, &whole{} // otherwise it lies on what was folded
		}
		if !mutant.On(mutant.LoseUnregistered) {
			out = m.join(out, links[from:to])
		}
		to = from
	}
	for i := len(out) - 1; i >= 0; i-- {
		needed := i+1 < len(out) && out[i+1].Meta.Kind.Partial()
		gone, err := m.addFolded(&out[i], links[0].newest && i == len(out)-1, needed)
		if err != nil {
			return err
		}
		if gone { // with its tombstone, which hides all older versions from all snapshots
			m.retain.spare = 0
			break
		}
	}
	if below == nil {
		return nil
	}
	return m.keepBase(below, needed)
}

// foldOnto returns the whole entry that links make of on. It reports false if they have
// to stay partial.
func (m *merge) foldOnto(on *whole, links []link) (*whole, bool) {
	c := partial.NewChain()
	defer c.Free()
	for i := range links {
		c.Add(links[i].Meta.Kind, links[i].Value)
	}
	outcome, err := c.Over(partial.BaseOf(on.Meta))
	if err != nil {
		return nil, false // a reader meets the damage
	}
	to := &whole{known: true, Entry: base.Entry{Key: m.key, Seq: links[0].Seq}}
	if to.Meta.Kind = base.KindDelete; !outcome.Present {
		return to, true
	}
	to.Meta = outcome.Meta(on.Meta)
	if len(outcome.Operands) == 0 {
		to.Meta.Kind, to.Value, to.made = on.Meta.Kind, on.Value, on.made
		if to.Meta.Kind == base.KindPointer {
			to.Value, err = values.Renewed(on.Value, on.Seq)
		}
		return to, err == nil
	}
	f, err := m.job.Functions.Of(m.key)
	if err != nil {
		return nil, false
	}
	existing := on.Value
	if outcome.FromBase && on.Meta.Kind == base.KindPointer {
		if m.job.Value == nil {
			return nil, false
		}
		if existing, err = m.job.Value(&on.Entry); err != nil {
			return nil, false
		}
	}
	to.made = true
	to.Value, err = outcome.Value(f, m.key, existing)
	return to, err == nil
}

// join appends partial entries that stand for links, which were not folded. They are one,
// unless it would be too long.
func (m *merge) join(out []whole, links []link) []whole {
	f, _ := m.job.Functions.Of(m.key)
	for to := len(links); to > 0; {
		from, size := to-1, len(links[to-1].Value)
		for from > 0 && size+len(links[from-1].Value) <= joinMax {
			from--
			size += len(links[from].Value)
		}
		e := links[from].Entry
		if to-from > 1 {
			var c partial.Chain
			for i := from; i < to; i++ {
				if i == to-1 && mutant.On(mutant.JoinLosesOne) {
					continue
				}
				c.Add(links[i].Meta.Kind, links[i].Value)
			}
			value, kind, err := c.Joined(m.key, f)
			if err != nil { // they stay as they are, and a reader meets the damage
				from = to - 1
				e = links[from].Entry
			} else {
				e.Value, e.Meta.Kind = value, kind
			}
		}
		out = append(out, whole{Entry: e})
		to = from
	}
	return out
}

// addFolded adds an entry that stands for a part of the chain. newest says that it is the
// newest version of the key, needed that a newer partial entry lies on it. It reports
// whether the entry is a tombstone that was left out, because nothing older stays.
func (m *merge) addFolded(w *whole, newest, needed bool) (gone bool, err error) {
	e := &w.Entry
	if e.Meta.Kind.Partial() {
		return false, m.out.add(e)
	}
	m.retain.newest = newest
	place := m.job.Place
	if m.screen(e) || w.made && e.Meta.Kind == base.KindSet {
		place = m.job.PlaceNew
	}
	if !(needed && e.Meta.Kind.HasValue()) && m.retain.gone(&e.Meta) {
		if !needed && m.job.Rules.Bottom && m.retain.seenByAll(e.Seq) {
			m.retain.newest = false
			return true, nil
		}
		tombstone(e)
	}
	m.retain.newest = false
	return false, m.add(e, place)
}

// keepBase adds the whole entry below a chain, if a snapshot sees it. needed says that the
// chain was not folded onto it.
func (m *merge) keepBase(e *base.Entry, needed bool) error {
	m.retain.newest = false
	was := *e
	verdict := m.retain.Judge(e.Seq, &e.Meta)
	switch {
	case needed && was.Meta.Kind.HasValue():
		verdict = Keep // even if it has expired: an operand may be older
	case needed && !(m.job.Rules.Bottom && m.retain.seenByAll(e.Seq)):
		verdict = Keep
	}
	switch verdict {
	case Drop:
		return nil
	case KeepTombstone:
		tombstone(e)
	}
	return m.add(e, m.job.Place)
}
