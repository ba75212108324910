package reads

import (
	"encoding/binary"
	"fmt"

	"github.com/stoatdb/stoat/internal/testing/model"
)

// leased returns the first number that the sequence has not leased.
func (l *life) leased() uint64 {
	v, ok := l.m.Get(ids+"/"+sequenceKey, l.m.Last(), 0)
	if !ok {
		return 0
	}
	return binary.BigEndian.Uint64([]byte(v.Value))
}

// lease notes a commit that says which numbers are leased. It is durable.
func (l *life) lease(to uint64) {
	value := binary.BigEndian.AppendUint64(nil, to)
	l.durable = l.m.Commit([]model.Write{{Key: ids + "/" + sequenceKey, Version: model.Version{Value: string(value)}}})
}

// number takes numbers of a handle of the sequence.
func (l *life) number() error {
	n := l.numbers[l.rng.IntN(len(l.numbers))]
	for range 1 + l.rng.IntN(4) {
		if n.next == n.end {
			n.next = l.leased()
			n.end = n.next + n.lease
			l.lease(n.end)
		}
		got, err := n.s.Next()
		switch {
		case err != nil:
			return err
		case l.given[got]:
			return fmt.Errorf("the sequence gives %d a second time", got)
		case got != n.next:
			return fmt.Errorf("the sequence gives %d, want %d", got, n.next)
		}
		l.given[got] = true
		n.next++
		l.work.Numbers++
	}
	return nil
}

// closeNumbers closes a handle of the sequence. It returns the rest of its lease, unless
// another handle has leased more.
func (l *life) closeNumbers() error {
	i := l.rng.IntN(len(l.numbers))
	n := l.numbers[i]
	if n.next < n.end && l.leased() == n.end {
		l.lease(n.next)
	}
	l.numbers[i] = l.newNumbers()
	return n.s.Close()
}
