package table

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// A verifier reads a whole table and checks all redundant information.
type verifier struct {
	r    *Reader
	seen Properties
	last []byte
	seq  base.SeqNum
	// covered is the number of block bytes that belong to some part. valEnd and
	// keyEnd are the ends of the last value part and key part.
	covered, valEnd, keyEnd int64
	arena                   codec.Arena // of the current block
}

// Verify reads the whole table and returns the first error. It checks checksums, the
// order of entries, fences, counts and bounds. It also checks that the hash index
// points to every key and to nothing else.
func (r *Reader) Verify() error {
	c := verifier{r: r}
	c.seen.SmallestSeq = base.SeqNumMax
	for b := range int(r.blocks) {
		c.arena.Reset()
		if err := c.verifyBlock(b); err != nil {
			return r.inFile(err)
		}
	}
	return r.inFile(c.verifyRest())
}

func (c *verifier) verifyBlock(b int) error {
	r := c.r
	// Verify reads everything again, even if it was verified before.
	if err := r.verifyKeys(b, true); err != nil {
		return err
	}
	v := r.viewVerified(b)
	if err := r.verifyValues(b, &v, true); err != nil {
		return err
	}
	if _, err := r.values(b, &v, &c.arena); err != nil {
		return err
	}
	if v.valOff < c.valEnd || v.keyOff < c.keyEnd {
		return base.Corrupt(v.keyOff, "place of a block", fmt.Sprint(v.keyOff, v.valOff), fmt.Sprintf("from %d %d on", c.keyEnd, c.valEnd))
	}
	c.keyEnd, c.valEnd = v.keyOff+int64(v.keyLen), v.valOff+int64(v.valLen)
	c.covered += int64(v.keyLen) + int64(v.valLen)
	if got, want := r.fence(b), v.head(r.shared); got != want {
		return base.Corrupt(r.fencesOff()+fenceSize*int64(b), "fence", fmt.Sprintf("%#x", got), fmt.Sprintf("%#x", want))
	}
	for i := range v.count {
		if err := c.verifyEntry(b, i, &v); err != nil {
			return err
		}
	}
	c.seen.Blocks++
	c.seen.KeyPartBytes += uint64(v.keyLen)
	c.seen.ValuePartBytes += uint64(v.valLen)
	return nil
}

func (c *verifier) verifyEntry(b, i int, v *view) error {
	p := &c.seen
	key := v.appendKey(nil, i)
	seq, m := v.seq(i), v.meta(i)
	order := bytes.Compare(c.last, key)
	if order > 0 || order == 0 && c.seq <= seq {
		return base.Corrupt(v.keyOff, "order of entries", fmt.Sprintf("%q#%d after %q#%d", key, seq, c.last, c.seq), "ascending keys, descending numbers")
	}
	if err := v.checkMeta(i, m); err != nil {
		return err
	}
	if order != 0 {
		p.Keys++
		found, err := c.leadsTo(key, b, i)
		if err == nil && !found {
			err = base.Corrupt(c.r.hashOff(), "hash index", "no slot", fmt.Sprintf("one for %q", key))
		}
		if err != nil {
			return err
		}
	}
	if p.Entries == 0 {
		p.Smallest = key
	}
	p.Entries++
	c.last, c.seq, p.Largest = key, seq, key
	p.SmallestSeq, p.LargestSeq = min(p.SmallestSeq, seq), max(p.LargestSeq, seq)
	switch m.Kind {
	case base.KindDelete:
		p.Deletions++
	case base.KindPointer:
		p.Pointers++
	case base.KindMerge, base.KindRenew:
		p.Partials++
	}
	if x := m.ExpiresAt; x != 0 {
		if p.Expiring == 0 {
			p.OldestExpiry = x
		}
		p.Expiring++
		p.OldestExpiry, p.NewestExpiry = min(p.OldestExpiry, x), max(p.NewestExpiry, x)
	}
	from, to := v.valueSpan(i)
	p.KeyBytes += uint64(len(key))
	p.ValueBytes += uint64(to - from)
	return nil
}

// checkMeta reports metadata of entry i that no writer makes. It causes no wrong answers, so
// view.check does not look for it.
func (v *view) checkMeta(i int, m base.Meta) error {
	if m.Kind.Partial() && (m.ExpiresAt != 0 || m.User != 0) {
		return base.Corrupt(v.keyOff, "metadata of a partial entry", fmt.Sprintf("expiry %d, user byte %d", m.ExpiresAt, m.User), "none")
	}
	if x := v.expiries.load(v.part, v.oExpiries, i); x != 0 && v.flagsOf(i)&flagExpires == 0 {
		return base.Corrupt(v.keyOff, "expiry of an entry that does not expire", x, 0)
	}
	return nil
}

// leadsTo reports whether the search for key in the hash index reaches entry i of
// block b.
func (c *verifier) leadsTo(key []byte, b, i int) (bool, error) {
	x := &c.r.hash
	slot, tag := x.home(base.Hash(key, c.r.hashSeed))
	want := tag<<x.posBits | ((uint64(b)<<x.entryBits | uint64(i)) + 1)
	for range x.slots {
		page := int(slot * uint64(x.slotBytes) / pageSize)
		if !c.r.pagesOK.has(page) {
			if err := c.r.verifyPage(page, true); err != nil {
				return false, err
			}
		}
		switch x.load(c.r.index, slot) {
		case want:
			return true, nil
		case 0:
			return false, nil
		}
		if slot++; slot == x.slots {
			slot = 0
		}
	}
	return false, nil
}

// verifyRest verifies everything outside the blocks.
func (c *verifier) verifyRest() error {
	r := c.r
	if c.covered != r.dataEnd {
		return base.Corrupt(0, "bytes in blocks", c.covered, r.dataEnd)
	}
	for at := r.dataEnd; at < r.hashOff(); at++ {
		if r.data[at] != 0 {
			return base.Corrupt(at, "byte before the hash index", r.data[at], 0)
		}
	}
	used := uint64(0)
	for page := range r.hash.pages() {
		if err := r.verifyPage(page, true); err != nil {
			return err
		}
	}
	for slot := range r.hash.slots {
		if r.hash.load(r.index, slot) != 0 {
			used++
		}
	}
	if used != c.seen.Keys {
		return base.Corrupt(r.hashOff(), "slots in use", used, c.seen.Keys)
	}
	sections, err := c.verifySections()
	if err != nil {
		return err
	}
	c.seen.Size, c.seen.DataSize, c.seen.Salt = r.size, r.dataEnd, r.salt
	c.seen.ValueFiles = r.props.ValueFiles // stored only in the properties
	deletions, err := rangedel.Decode(sections[3], r.delsOff())
	if err != nil {
		return err
	}
	c.seen.include(deletions)
	if !reflect.DeepEqual(c.seen, r.props) {
		return base.Corrupt(r.propsOff(), "properties", fmt.Sprintf("%+v", r.props.short()), fmt.Sprintf("%+v", c.seen.short()))
	}
	return nil
}

// verifySections verifies again the sections that Open verified.
func (c *verifier) verifySections() (sections [5][]byte, err error) {
	r := c.r
	tail := r.data[r.footerOff():]
	f, err := decodeFooter(tail, r.size)
	if err != nil {
		return sections, err
	}
	if f != r.footer {
		return sections, base.Corrupt(r.footerOff(), "footer", fmt.Sprintf("%+v", f), fmt.Sprintf("%+v", r.footer))
	}
	return r.readSections()
}
