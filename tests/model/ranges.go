package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/stoatdb/stoat/internal/testing/model"
)

// randomRange draws a range to delete, most often a short one; a nil hi has no
// end. The time key stays: see Run.fixTime.
func (r *Run) randomRange(rng *rand.Rand) (lo, hi []byte) {
	lo, hi = []byte(r.keys.near(rng)), []byte(r.keys.near(rng))
	if bytes.Compare(lo, hi) > 0 && rng.IntN(8) != 0 {
		lo, hi = hi, lo
	}
	switch rng.IntN(14) {
	case 0:
		lo = nil
	case 1:
		hi = nil
	case 12:
		lo, hi = nil, []byte{0} // no key is below the end
	case 13:
		hi = []byte{}
	case 2, 3, 4, 5, 6, 7:
		i := rng.IntN(r.keys.n)
		lo, hi = []byte(r.keys.key(i)), []byte(r.keys.key(min(i+1+rng.IntN(8), r.keys.n-1)))
	}
	if !r.still && (hi == nil || string(hi) > timeKey) {
		hi = []byte(timeKey)
	}
	return lo, hi
}

// deleteRange deletes a range on both sides.
func (r *Run) deleteRange(p *Pair, lo, hi []byte) error {
	r.say("t%d.DeleteRange(%.40q, %.40q), no end %v", p.name, lo, hi, hi == nil)
	r.Work.calls++
	modelRange(p.model, lo, hi)
	err := p.Tx.DeleteRange(lo, hi)
	// The caller may do with its bytes what it likes.
	clear(lo)
	clear(hi)
	return err
}

// modelRange is Txn.DeleteRange of the model.
func modelRange(m *model.Txn, lo, hi []byte) {
	m.DeleteRange(string(lo), string(hi), hi != nil)
}

// opDeleteRange deletes a range, and often writes into it and looks at it.
func opDeleteRange(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, true)
	if err != nil {
		return err
	}
	lo, hi := r.randomRange(rng)
	inside := string(lo)
	if err := r.deleteRange(p, lo, hi); err != nil {
		return err
	}
	if inside == "" || rng.IntN(2) == 0 {
		return nil
	}
	if err := r.get(p, inside); err != nil || rng.IntN(2) == 0 {
		return err
	}
	return r.Write(p, inside, r.value(rng))
}

// opDropPrefix drops what begins as some key does.
func opDropPrefix(r *Run, rng *rand.Rand) error {
	if err := r.settle(); err != nil {
		return err
	}
	key := r.keys.near(rng)
	prefix := key[:(len(key)+1+rng.IntN(len(key)+1))/2]
	if !r.still && strings.HasPrefix(timeKey, prefix) {
		return nil
	}
	hi := []byte(prefix)
	for len(hi) > 0 && hi[len(hi)-1] == 0xff {
		hi = hi[:len(hi)-1]
	}
	if len(hi) == 0 {
		hi = nil // all keys from prefix on begin with it
	} else {
		hi[len(hi)-1]++
	}
	m := r.Model.Begin(r.Model.Last(), true)
	modelRange(m, []byte(prefix), hi)
	seq, ok := m.Commit()
	r.say("DropPrefix(%.40q): commit %d", prefix, seq)
	if !ok {
		return errors.New("the model finds a conflict of a drop")
	}
	drop := r.DB.DropPrefix
	if r.home != "" {
		drop = r.spaces.home.DropPrefix
	}
	if err := drop(context.Background(), []byte(prefix)); err != nil {
		return fmt.Errorf("drop: %w", err)
	}
	r.known = max(r.known, seq)
	return nil
}
