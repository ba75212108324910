package isolation

import (
	"maps"
	"runtime"
	"slices"
	"sync"
)

// A bug describes something that the reference store does wrong.
type bug string

const (
	noBug bug = "none"

	skipPointCheck       bug = "point reads are not validated"
	skipAbsentCheck      bug = "reads of absent keys are not validated"
	skipRangeCheck       bug = "scans are not validated"
	skipLimitedRange     bug = "scans with a limit are not validated"
	skipKeyOnlyRange     bug = "key-only scans are not validated"
	phantomTail          bug = "the gap behind the last scanned key is not validated"
	phantomHead          bug = "the gap before the first scanned key is not validated"
	reversedRange        bug = "a reverse scan is validated as if it were a forward one"
	deletesUnchecked     bug = "deletions are not seen by validation"
	firstCommitUnchecked bug = "the first commit after the snapshot is not seen by validation"
	groupUnchecked       bug = "members of a group are not validated against each other"
	snapshotTooNew       bug = "reads see one commit too many"
	snapshotTooOld       bug = "snapshots begin one commit too early"
	earlyPublish         bug = "commits are visible before they are complete"
	latePublish          bug = "commits are acknowledged before they are visible"
	lostWrite            bug = "a large commit loses one of its writes"
	leakedAbort          bug = "the writes of an aborted transaction stay"
	doubleVersion        bug = "two commits get one version"
	skippedVersion       bug = "a version is skipped"
	ownWritesUnread      bug = "a transaction does not read its own writes"
	ownDeletesUnscanned  bug = "a scan does not see the own deletions"
	resurrection         bug = "a deletion shows the value before it"
	scanGap              bug = "a scan leaves out a key"
	tornValue            bug = "a value is mixed from two versions"
	needlessConflict     bug = "commits conflict without a reason"
	rangesUnchecked      bug = "deleted ranges are not seen by validation"
	rangeTooWide         bug = "a deleted range includes its end"
	rangeKeepsOwn        bug = "a deleted range leaves what its transaction had set"
	rangeHidesLater      bug = "a deleted range takes what its transaction sets afterwards"
	rangeInThePast       bug = "a deleted range is gone from older snapshots"
	untoldOutOfOrder     bug = "commits whose versions are not told come in another order"
)

var bugs = []bug{
	skipPointCheck, skipAbsentCheck, skipRangeCheck, skipLimitedRange,
	skipKeyOnlyRange, phantomTail, phantomHead, reversedRange,
	deletesUnchecked, firstCommitUnchecked, groupUnchecked, snapshotTooNew,
	snapshotTooOld, earlyPublish, latePublish, lostWrite,
	leakedAbort, doubleVersion, skippedVersion, ownWritesUnread,
	ownDeletesUnscanned, resurrection, scanGap, tornValue,
	needlessConflict, rangesUnchecked, rangeTooWide, rangeKeepsOwn,
	rangeHidesLater, rangeInThePast, untoldOutOfOrder,
}

// A reference is a store that is obviously correct: one mutex, all versions
// kept, and every conflict found by comparing keys. It can also have one bug,
// which is how the checker is tested.
type reference struct {
	bug bug

	mu       sync.Mutex
	visible  uint64
	newest   uint64
	versions map[string][]version
	commits  map[uint64][]string
	ranges   map[uint64][]span
	untold   uint64
}

func newReference(b bug) *reference {
	return &reference{bug: b, versions: make(map[string][]version), commits: make(map[uint64][]string),
		ranges: make(map[uint64][]span)}
}

type refTx struct {
	store *reference
	write bool
	seq   uint64
	own   *pending
	reads []span
}

func (r *reference) Begin(write bool) (Tx, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &refTx{store: r, write: write, seq: r.visible, own: newPending()}
	if r.bug == snapshotTooOld && t.seq > 0 {
		t.seq--
	}
	return t, nil
}

func (t *refTx) ReadVersion() uint64 { return t.seq }

func (t *refTx) note(lo, hi string) { t.reads = append(t.reads, span{lo, hi}) }

func (t *refTx) Get(key string) (Item, bool, error) {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if value, ok := t.own.get(key); ok && t.store.bug != ownWritesUnread {
		if value == nil {
			return Item{}, false, nil
		}
		return Item{Key: key, Value: *value}, true, nil
	}
	it, found := t.store.read(key, t.seq)
	switch {
	case t.store.bug == skipPointCheck, t.store.bug == skipAbsentCheck && !found:
	default:
		t.note(key, key+"\x00")
	}
	return it, found, nil
}

// read is a point read of the committed state. The caller holds the store's
// mutex.
func (r *reference) read(key string, seq uint64) (Item, bool) {
	if r.bug == snapshotTooNew {
		seq++
	}
	versions := r.versions[key]
	for i := len(versions) - 1; i >= 0; i-- {
		v := versions[i]
		if v.seq > seq {
			continue
		}
		if v.deleted {
			if r.bug == resurrection {
				continue
			}
			return Item{}, false
		}
		if r.bug == tornValue && len(versions) > 1 {
			v.value = v.value[:1] + versions[0].value
		}
		return Item{key, v.value, v.seq}, true
	}
	return Item{}, false
}

func (t *refTx) Scan(q Query) ([]Item, bool, error) {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	var items []Item
	exhausted := true
	for _, key := range t.candidates(q) {
		if q.Limit != 0 && len(items) == q.Limit {
			exhausted = false
			break
		}
		it, found := t.store.read(key, t.seq)
		if value, ok := t.own.get(key); ok && (value != nil || t.store.bug != ownDeletesUnscanned) {
			if found = value != nil; found {
				it = Item{Key: key, Value: *value}
			}
		}
		if q.KeysOnly {
			it.Value = ""
		}
		if found {
			items = append(items, it)
		}
	}
	if t.store.bug == scanGap && len(items) > 2 {
		items = slices.Delete(items, 1, 2)
	}
	t.noteScan(q, items, exhausted)
	return items, exhausted, nil
}

// candidates returns every key of the range in the order of the scan.
func (t *refTx) candidates(q Query) []string {
	var keys []string
	for key := range t.store.versions {
		keys = append(keys, key)
	}
	for key := range t.own.keys {
		if _, ok := t.store.versions[key]; !ok {
			keys = append(keys, key)
		}
	}
	keys = slices.DeleteFunc(keys, func(key string) bool {
		return key < q.Lo || q.Hi != "" && key >= q.Hi
	})
	slices.Sort(keys)
	if q.Reverse {
		slices.Reverse(keys)
	}
	return keys
}

func (t *refTx) noteScan(q Query, items []Item, exhausted bool) {
	b := t.store.bug
	if b == skipRangeCheck || b == skipLimitedRange && q.Limit != 0 || b == skipKeyOnlyRange && q.KeysOnly {
		return
	}
	op := Op{Query: q, Items: items, Exhausted: exhausted}
	if b == reversedRange {
		op.Query.Reverse = false
	}
	if b == phantomTail {
		if len(items) == 0 {
			return
		}
		op.Exhausted = false
	}
	lo, hi := covered(&op)
	if b == phantomHead && len(items) > 0 && !q.Reverse {
		lo = items[0].Key
	}
	t.note(lo, hi)
}

func (t *refTx) Delete(key string) error { t.own.apply(&Op{Kind: OpDelete, Key: key}); return nil }
func (t *refTx) Discard()                {}

func (t *refTx) Set(key, value string) error {
	if _, covered := t.own.get(key); covered && t.own.keys[key] == nil && t.store.bug == rangeHidesLater {
		return nil
	}
	t.own.apply(&Op{Kind: OpSet, Key: key, Value: value})
	return nil
}

func (t *refTx) DeleteRange(lo, hi string) error {
	if t.store.bug == rangeTooWide && hi != "" {
		hi += "\x00"
	}
	kept := maps.Clone(t.own.keys)
	t.own.apply(&Op{Kind: OpDeleteRange, Query: Query{Lo: lo, Hi: hi}})
	if t.store.bug == rangeKeepsOwn {
		t.own.keys = kept
	}
	return nil
}

func (t *refTx) Commit() (Commit, error) {
	r := t.store
	if len(t.own.keys) == 0 && len(t.own.ranges) == 0 {
		return Commit{}, nil
	}
	r.mu.Lock()
	conflict := t.conflicts()
	if conflict {
		if r.bug == leakedAbort && r.newest > 0 {
			r.put(t.own, r.newest)
		}
		r.mu.Unlock()
		return Commit{Conflict: true}, nil
	}
	seq := r.next()
	r.publish(t.own, seq)
	ended := Commit{Version: seq}
	if seq%3 == 0 {
		r.untold++
		ended = Commit{Untold: r.untold}
		if r.bug == untoldOutOfOrder {
			ended.Untold ^= 1 << 3
		}
	}
	r.mu.Unlock()
	return ended, nil
}

func (r *reference) next() uint64 {
	switch {
	case r.bug == doubleVersion && r.newest%8 == 7:
		return r.newest
	case r.bug == skippedVersion && r.newest%8 == 7:
		r.newest++
	}
	r.newest++
	return r.newest
}

// publish makes a commit readable. Its bugs open windows in which other
// goroutines see too much.
func (r *reference) publish(own *pending, seq uint64) {
	pause := func() {
		r.mu.Unlock()
		runtime.Gosched()
		r.mu.Lock()
	}
	switch r.bug {
	case earlyPublish:
		r.visible = max(r.visible, seq)
		pause()
		r.put(own, seq)
		return
	case lostWrite:
		for key := range own.keys {
			if len(own.keys) > 2 {
				delete(own.keys, key)
				break
			}
		}
	}
	r.put(own, seq)
	if r.bug == latePublish {
		go func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.visible = max(r.visible, seq)
		}()
		return
	}
	r.visible = max(r.visible, seq)
}

func (r *reference) put(own *pending, seq uint64) {
	r.ranges[seq] = own.ranges
	for key, versions := range r.versions {
		if value, ok := own.get(key); ok && value == nil {
			if r.bug == rangeInThePast && own.keys[key] == nil {
				versions = nil
			}
			r.versions[key] = append(versions, version{seq: seq, deleted: true})
		}
	}
	for key, value := range own.keys {
		if _, known := r.versions[key]; known && value == nil {
			r.commits[seq] = append(r.commits[seq], key)
			continue // above
		}
		v := version{seq: seq, deleted: value == nil}
		if value != nil {
			v.value = *value
		}
		r.versions[key] = append(r.versions[key], v)
		r.commits[seq] = append(r.commits[seq], key)
	}
}

func (t *refTx) conflicts() bool {
	r := t.store
	first := t.seq + 1
	if r.bug == firstCommitUnchecked {
		first++
	}
	if r.bug == groupUnchecked && r.newest > 0 && r.newest%4 == 3 {
		first = r.newest + 1
	}
	if r.bug == needlessConflict && t.seq%4 == 3 {
		return true
	}
	for seq := first; seq <= r.newest; seq++ {
		for _, deleted := range r.ranges[seq] {
			if r.bug != rangesUnchecked && r.bug != deletesUnchecked && slices.ContainsFunc(t.reads, deleted.meets) {
				return true
			}
		}
		for _, key := range r.commits[seq] {
			if r.bug == deletesUnchecked && r.deleted(key, seq) {
				continue
			}
			for _, s := range t.reads {
				if key >= s.lo && (s.hi == "" || key < s.hi) {
					return true
				}
			}
		}
	}
	return false
}

func (r *reference) deleted(key string, seq uint64) bool {
	for _, v := range r.versions[key] {
		if v.seq == seq {
			return v.deleted
		}
	}
	return false
}
