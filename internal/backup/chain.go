package backup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/work"
)

// ErrChain says that backups do not belong together.
var ErrChain = errors.New("stoat: backups do not belong together")

// A Chain reads a full backup and its incremental ones as one snapshot: that of the last
// backup.
type Chain struct {
	links []*link // the oldest first
	// newest is the last link that is not empty. A key that it does not name is gone.
	newest *link
	part   bool    // the first link may be an incremental backup
	queue  []*link // of the links that are not at their end; sorted, the next one is last
	at     []*link // those that have the current key, the newest first
	key    []byte
	// from is the index in at of the link that is read.
	from int
	// most is the greatest version of the key that is left. With wanted, exactly that
	// version comes next.
	most   base.SeqNum
	wanted bool
	whole  bool // Next has returned a version that needs no older one
	spent  bool // the item of the link that is read was used
}

// A link is a backup of a chain.
type link struct {
	*Reader
	name   string
	index  int
	before *link // the last link before it that is not empty; nil if there is none
	item   Item
}

// OpenChain reads the headers of backups, and checks that each follows the one before. With
// upTo, the chain ends with the last consecutive backup of that version. There can be several,
// because a compaction filter changes values without a new version. OpenChain must read the
// header of the next backup, and ignores all after it.
func OpenChain(upTo uint64, backups []io.Reader) (*Chain, error) {
	c := &Chain{}
	if err := c.openAll(upTo, backups); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Chain) openAll(upTo uint64, backups []io.Reader) error {
	if len(backups) == 0 {
		return fmt.Errorf("%w: there is no backup", ErrChain)
	}
	for i, r := range backups {
		l := &link{name: fmt.Sprintf("backup %d of %d", i+1, len(backups)), index: i}
		err := c.open(l, r)
		if c.endsAt(upTo) {
			if errors.Is(err, ErrChain) || err == nil && l.Header.Info().Version != upTo {
				return nil
			}
			if err != nil {
				err = fmt.Errorf("%w; %s may be of version %d, too: without it, the restore ends before it", err, l.name, upTo)
			}
		}
		if err != nil {
			return err
		}
		c.links = append(c.links, l)
		if l.before = c.newest; !l.empty {
			c.newest = l
		}
	}
	if upTo > 0 && !c.endsAt(upTo) {
		var have []uint64
		for _, l := range c.links {
			have = append(have, uint64(l.Header.State.LastSeq))
		}
		return fmt.Errorf("%w: none has version %d, their versions are %d", ErrChain, upTo, have)
	}
	return nil
}

// VerifyChain reads backups to their ends, and describes them. It checks that each follows the
// one before, and has what the later ones need of it. The first may be an incremental one.
func VerifyChain(ctx context.Context, backups []io.Reader) (infos []Info, err error) {
	ctx = work.Given(ctx)
	c := &Chain{part: true}
	if err := c.openAll(0, backups); err != nil {
		return nil, err
	}
	for n := 0; err == nil; n++ {
		if n%stopEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		_, _, err = c.Next()
	}
	if err != io.EOF {
		return nil, err
	}
	for _, l := range c.links {
		infos = append(infos, l.Info())
	}
	return infos, nil
}

// endsAt reports whether the last link has a version, which is not 0.
func (c *Chain) endsAt(version uint64) bool {
	return version > 0 && len(c.links) > 0 && c.Last().Header.Info().Version == version
}

// open reads the header of l from r, and checks that l follows the last link.
func (c *Chain) open(l *link, r io.Reader) (err error) {
	if l.Reader, err = NewReader(r); err != nil {
		return l.wrap(err)
	}
	return c.follows(l)
}

// follows checks that l follows the last link.
func (c *Chain) follows(l *link) error {
	got := l.Header.Info()
	if len(c.links) == 0 {
		if got.Since != 0 && !c.part {
			return fmt.Errorf("%w: %s holds the changes since version %d, want a full backup", ErrChain, l.name, got.Since)
		}
		return nil
	}
	before := c.links[len(c.links)-1]
	want := before.Header.Info()
	switch {
	case got.Database != want.Database:
		return fmt.Errorf("%w: %s is of database %s, %s of database %s", ErrChain, l.name, got.Database, before.name, want.Database)
	case got.Since != want.Version:
		return fmt.Errorf("%w: %s holds the changes since version %d, but %s ends at version %d", ErrChain, l.name, got.Since, before.name, want.Version)
	}
	for _, earlier := range c.links {
		for _, k := range earlier.Header.State.Keyspaces {
			s := &l.Header.State
			if _, known := s.Keyspace(k.Number); known && s.Timed(k.Number) != k.Timed() {
				return fmt.Errorf("%w: the keyspace %q has timestamps either in %s or in %s", ErrChain, k.Name, earlier.name, l.name)
			}
		}
	}
	return nil
}

// wrap adds the name of the backup to err.
func (l *link) wrap(err error) error {
	if errors.Is(err, base.ErrCorrupt) {
		return base.InFile(err, l.name)
	}
	return fmt.Errorf("%s: %w", l.name, err)
}

// Last returns the last backup of the chain.
func (c *Chain) Last() *Reader { return c.links[len(c.links)-1].Reader }

// Nonces returns the random numbers of the backups.
func (c *Chain) Nonces() (nonces []uint64) {
	for _, l := range c.links {
		nonces = append(nonces, l.Header.Nonce)
	}
	return nonces
}

// Next returns the next version of the snapshot: keys ascend, and versions of a key
// descend. The item is valid until the call after. At the end it returns io.EOF: then all
// backups are known to be right.
func (c *Chain) Next() (Item, *Reader, error) {
	if c.queue == nil {
		c.queue = make([]*link, 0, len(c.links))
		for _, l := range c.links {
			if err := c.advance(l); err != nil {
				return Item{}, nil, err
			}
		}
	}
	for {
		for c.from < len(c.at) {
			it, from, found, err := c.find(c.at[c.from])
			if found || err != nil {
				return it, from, err
			}
		}
		if err := c.nextKey(); err != nil {
			return Item{}, nil, err
		}
	}
}

// nextKey moves to the next key.
func (c *Chain) nextKey() error {
	for _, l := range c.at {
		if err := c.advance(l); err != nil {
			return err
		}
	}
	c.at, c.from = c.at[:0], 0
	if len(c.queue) == 0 {
		return io.EOF
	}
	c.key = append(c.key[:0], c.queue[len(c.queue)-1].item.Key...)
	for n := len(c.queue); n > 0 && bytes.Equal(c.queue[n-1].item.Key, c.key); n-- {
		c.at, c.queue = append(c.at, c.queue[n-1]), c.queue[:n-1]
	}
	c.most, c.wanted, c.whole, c.spent = base.SeqNumMax, false, false, false
	if c.at[0] != c.newest && !mutant.On(mutant.RestoreResurrects) {
		return c.skipKey(0) // a later backup does not name the key: it is gone
	}
	return nil
}

// find returns the next version of the key in l. It reports false when l has no other one,
// and moves to the next link then, or to the end of the key.
func (c *Chain) find(l *link) (it Item, from *Reader, found bool, err error) {
	for {
		if c.spent {
			if more, err := c.sameKey(l); err != nil {
				return it, nil, false, err
			} else if !more {
				return it, nil, false, c.exhausted(l)
			}
		}
		c.spent = true
		switch it = l.item; {
		case it.Seq > c.most:
			continue // a later backup has dropped it
		case c.wanted && it.Seq != c.most:
			return it, nil, false, c.missing(l)
		case it.Unchanged:
			c.most, c.wanted = it.Seq, true
			return it, nil, false, c.older(l)
		}
		c.wanted, c.whole = false, c.whole || !it.Meta.Kind.Partial()
		return it, l.Reader, true, nil
	}
}

// exhausted ends the key after the last version that l has.
func (c *Chain) exhausted(l *link) error {
	if c.wanted {
		return c.missing(l)
	}
	return c.skipKey(c.from)
}

// older moves to the last backup before l that is not empty, which must have the key.
func (c *Chain) older(l *link) error {
	if _, err := c.sameKey(l); err != nil { // an unchanged version is the last of its key
		return err
	}
	if l.before == nil { // a backup before the chain has the version
		return c.skipKey(c.from)
	}
	if c.from++; c.from == len(c.at) || c.at[c.from] != l.before {
		return c.missing(l.before)
	}
	c.spent = false
	return nil
}

// missing ends the key in a backup that lacks a version that a later one names. Without a
// whole version so far, the newest value is lost, which is an error. Behind a whole version
// there is only history, which the backup may never have had. Retention can drop a version
// that the backup has, and keep an older one that it has not:
//
//	                 NumVersions   database    backup
//	first backup     1             k#20 k#15   k#20
//	flush of k#30    1             k#30 k#15
//	second backup    2             k#30 k#15   k#30, k#15 unchanged
func (c *Chain) missing(l *link) error {
	if c.whole {
		return c.skipKey(c.from)
	}
	return l.wrap(base.Corrupt(-1, fmt.Sprintf("version of the key %.80q", c.key), "another one", uint64(c.most)))
}

// sameKey moves l to its next version of the key, and reports whether there is one.
func (c *Chain) sameKey(l *link) (bool, error) {
	it, err := l.Next()
	if err == io.EOF {
		it = Item{}
	} else if err != nil {
		return false, l.wrap(err)
	}
	l.item = it
	return bytes.Equal(it.Key, c.key), nil
}

// skipKey ends the key. The links from index from on have older versions, which are gone.
func (c *Chain) skipKey(from int) error {
	for _, l := range c.at[from:] {
		for bytes.Equal(l.item.Key, c.key) {
			if _, err := c.sameKey(l); err != nil {
				return err
			}
		}
	}
	c.from = len(c.at)
	return nil
}

// advance puts l, whose item is that after the current key, into the queue. Of the links with
// one key, the newest comes first.
func (c *Chain) advance(l *link) error {
	if l.item.Key == nil && !l.ended {
		it, err := l.Next()
		if err != nil && err != io.EOF {
			return l.wrap(err)
		}
		l.item = it
	}
	if l.item.Key != nil {
		at, _ := slices.BinarySearchFunc(c.queue, l, func(a, b *link) int {
			return cmp.Or(bytes.Compare(b.item.Key, a.item.Key), cmp.Compare(a.index, b.index))
		})
		c.queue = slices.Insert(c.queue, at, l)
	}
	return nil
}
