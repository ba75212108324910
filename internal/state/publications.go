package state

import (
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/lock"
)

// publications remember roughly when versions became visible. So Stats can tell
// how old a snapshot is, and taking a snapshot need not look at the clock.
//
// One publication a second is remembered, and fewer of those long ago. So the age of a
// snapshot is too short by an eighth of itself and a second at most.
type publications struct {
	// newest is the last publication. at is stored first, so it never belongs to a
	// publication before that of seq.
	newest struct {
		seq atomic.Uint64
		at  atomic.Int64
	}

	mu   lock.Mutex[lock.Publications]
	past []publication // guarded by mu; the oldest first
}

// A publication says that a version was visible at a moment of work.Now.
type publication struct {
	seq base.SeqNum
	at  int64
}

const (
	// publicationEvery is the least time between remembered publications, in
	// nanoseconds.
	publicationEvery = int64(time.Second)
	// publicationPart: the time between remembered publications may be their age
	// divided by this.
	publicationPart = 8
)

// note notes that seq has become visible.
func (p *publications) note(seq base.SeqNum, now int64) {
	before := publication{base.SeqNum(p.newest.seq.Load()), p.newest.at.Load()}
	if now/publicationEvery != before.at/publicationEvery {
		p.remember(before, publication{seq, now})
	}
	p.newest.at.Store(now)
	p.newest.seq.Store(uint64(seq))
}

// remember adds two publications between which there was none.
func (p *publications) remember(before, x publication) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before.at > 0 {
		p.past = append(p.past, before)
	}
	p.past = append(p.past, x)
	p.thinLocked(x.at)
}

// thinLocked forgets publications that have others close by, as seen from now.
func (p *publications) thinLocked(now int64) {
	kept, last := p.past[:1], len(p.past)-1
	for i := 1; i < last; i++ {
		next := p.past[i+1].at
		if next-kept[len(kept)-1].at > max(publicationEvery, (now-next)/publicationPart) {
			kept = append(kept, p.past[i])
		}
	}
	if last > 0 {
		kept = append(kept, p.past[last])
	}
	p.past = kept
}

// since returns for how long at least there has been a version after seq, 0 if
// there is none. The version may have become visible after now.
func (p *publications) since(seq base.SeqNum, now int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.past {
		if x.seq > seq {
			return time.Duration(max(0, now-x.at))
		}
	}
	if newest := base.SeqNum(p.newest.seq.Load()); newest > seq {
		return time.Duration(max(0, now-p.newest.at.Load()))
	}
	return 0
}
