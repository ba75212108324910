package isolation

import (
	"maps"
	"runtime"
	"slices"
	"strings"
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
	lostOperand          bug = "an operand takes the place of those since its snapshot"
	doubledOperand       bug = "an operand counts twice after another one"
	swappedOperands      bug = "an operand comes before the last one"
	ownOperandsUnread    bug = "a transaction does not read its own operands"
	mergesRead           bug = "a merge conflicts as if it had read the key"
	mergesUnchecked      bug = "operands are not seen by validation"
	renewalsUnchecked    bug = "renewals are not seen by validation"
	timesUnchecked       bug = "reads at a timestamp are not validated"
	sameTimeUnchecked    bug = "a version at the very timestamp of a read is not seen by validation"
	earlierUnchecked     bug = "a version before the timestamp of a read is not seen by validation"
	purgesUnchecked      bug = "purged ranges are not seen by validation of reads at a timestamp"
	laterChecked         bug = "a version after the timestamp of a read is a conflict"
	reverseTooFar        bug = "a reverse scan at a timestamp is validated as if it had reached its end"
	earliestShown        bug = "a read at a timestamp finds the earliest version"
	deletionsPassed      bug = "a deletion at a timestamp does not hide earlier versions"
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
	lostOperand, doubledOperand, swappedOperands, ownOperandsUnread,
	mergesRead, mergesUnchecked, renewalsUnchecked,
	timesUnchecked, sameTimeUnchecked, earlierUnchecked, purgesUnchecked,
	laterChecked, reverseTooFar, earliestShown, deletionsPassed,
}

// needless are the bugs that make conflicts without a reason.
var needless = []bug{needlessConflict, mergesRead, laterChecked, reverseTooFar}

// A reference is a store that is obviously correct: one mutex, all versions
// kept, and every conflict found by comparing keys. It can also have one bug,
// which is how the checker is tested.
type reference struct {
	bug    bug
	counts bool

	mu       sync.Mutex
	visible  uint64
	newest   uint64
	versions map[string][]version
	commits  map[uint64]map[string]write
	ranges   map[uint64][]span
	untold   uint64
}

// newReference returns a store for the histories of cfg.
func newReference(b bug, cfg Config) *reference {
	return &reference{bug: b, counts: cfg.Counts, versions: make(map[string][]version), commits: make(map[uint64]map[string]write),
		ranges: make(map[uint64][]span)}
}

type refTx struct {
	store *reference
	write bool
	seq   uint64
	own   *pending
	reads []reading
	time  uint64 // or 0
}

func (r *reference) Begin(write bool) (Tx, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &refTx{store: r, write: write, seq: r.visible, own: newPending(r.counts)}
	if r.bug == snapshotTooOld && t.seq > 0 {
		t.seq--
	}
	return t, nil
}

func (t *refTx) ReadVersion() uint64 { return t.seq }

func (t *refTx) At(timestamp uint64) { t.time = timestamp }

func (t *refTx) note(s span) { t.reads = append(t.reads, reading{s, t.time}) }

func (t *refTx) Get(key string) (Item, bool, error) {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if t.time != 0 {
		it, found := t.getAt(key)
		return it, found, nil
	}
	w, own := t.own.get(key)
	if own = own && t.store.bug != ownWritesUnread; own && !w.partial {
		return Item{Key: key, Value: w.value}, !w.deleted, nil
	}
	it, found := t.store.read(key, t.seq)
	switch {
	case t.store.bug == skipPointCheck, t.store.bug == skipAbsentCheck && !found:
	default:
		t.note(span{key, key + "\x00"})
	}
	if own && t.store.bug != ownOperandsUnread {
		it, found = t.merged(w, it, found)
	}
	return it, found, nil
}

// merged returns what the operands of the transaction make of an item.
func (t *refTx) merged(w write, it Item, found bool) (Item, bool) {
	if !found && len(w.operands) == 0 {
		return it, false
	}
	return Item{Key: it.Key, Value: merged(t.store.counts, it.Value, w.operands)}, true
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
			break
		}
		if r.bug == tornValue && len(versions) > 1 {
			v.value = v.value[:1] + versions[0].value
		}
		return Item{Key: key, Value: v.value, Version: v.seq}, true
	}
	return Item{Key: key}, false
}

func (t *refTx) Scan(q Query) ([]Item, bool, error) {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if t.time != 0 {
		items, exhausted := t.scanAt(q)
		return items, exhausted, nil
	}
	var items []Item
	exhausted := true
	for _, key := range t.candidates(q) {
		if q.Limit != 0 && len(items) == q.Limit {
			exhausted = false
			break
		}
		it, found := t.store.read(key, t.seq)
		w, own := t.own.get(key)
		switch {
		case own && w.partial:
			it, found = t.merged(w, it, found)
		case own && (!w.deleted || t.store.bug != ownDeletesUnscanned):
			it, found = Item{Key: key, Value: w.value}, !w.deleted
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
	op := Op{Query: q, Items: items, Exhausted: exhausted, At: t.time}
	if b == reversedRange {
		op.Query.Reverse = false
	}
	if b == reverseTooFar && q.Reverse && t.time != 0 {
		op.Exhausted = true
	}
	if b == phantomTail {
		if len(items) == 0 {
			return
		}
		op.Exhausted = false
	}
	s := covered(&op)
	if b == phantomHead && len(items) > 0 && !q.Reverse {
		s.lo = items[0].Key
	}
	t.note(s)
}

func (t *refTx) Discard() {}

func (t *refTx) apply(op Op) error {
	op.At = t.time
	t.own.apply(&op)
	return nil
}

func (t *refTx) Delete(key string) error { return t.apply(Op{Kind: OpDelete, Key: key}) }
func (t *refTx) Renew(key string) error  { return t.apply(Op{Kind: OpRenew, Key: key}) }

func (t *refTx) Set(key, value string) error {
	_, covered := t.own.get(key)
	if _, listed := t.own.keys[key]; covered && !listed && t.store.bug == rangeHidesLater {
		return nil
	}
	return t.apply(Op{Kind: OpSet, Key: key, Value: value})
}

func (t *refTx) Merge(key, operand string) error {
	if t.store.bug == mergesRead {
		t.note(ofKey(key))
	}
	return t.apply(Op{Kind: OpMerge, Key: key, Value: operand})
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
			r.put(t, r.newest)
		}
		r.mu.Unlock()
		return Commit{Conflict: true}, nil
	}
	seq := r.next()
	r.publish(t, seq)
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
func (r *reference) publish(t *refTx, seq uint64) {
	pause := func() {
		r.mu.Unlock()
		runtime.Gosched()
		r.mu.Lock()
	}
	switch r.bug {
	case earlyPublish:
		r.visible = max(r.visible, seq)
		pause()
		r.put(t, seq)
		return
	case lostWrite:
		for key := range t.own.keys {
			if len(t.own.keys) > 2 {
				delete(t.own.keys, key)
				break
			}
		}
	}
	r.put(t, seq)
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

func (r *reference) put(t *refTx, seq uint64) {
	r.ranges[seq], r.commits[seq] = t.own.ranges, t.own.keys
	for key, versions := range r.versions {
		_, listed := t.own.keys[key]
		if _, ok := t.own.get(key); ok && !listed {
			if r.bug == rangeInThePast {
				versions = nil
			}
			r.versions[key] = append(versions, version{seq: seq, deleted: true, gone: true})
		}
	}
	for key, w := range t.own.keys {
		v := version{seq: seq, value: w.value, deleted: w.deleted}
		if w.partial {
			v = r.fold(t, key, w)
			v.seq = seq
		}
		r.versions[key] = append(r.versions[key], v)
	}
}

// fold returns what operands make of the newest version.
func (r *reference) fold(t *refTx, key string, w write) version {
	at := r.newest
	if r.bug == lostOperand {
		at = t.seq
	}
	it, found := r.read(key, at)
	before, last, several := strings.Cut(it.Value, operandSign)
	switch {
	case r.bug == doubledOperand && several:
		w.operands = append(slices.Clone(w.operands), w.operands...)
	case r.bug == swappedOperands && several && !strings.Contains(last, operandSign):
		it.Value, w.operands = before, append(slices.Clone(w.operands), operandSign+last)
	}
	v, found := t.merged(w, it, found)
	return version{value: v.Value, deleted: !found}
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
			if r.bug != rangesUnchecked && r.bug != deletesUnchecked && slices.ContainsFunc(t.reads, func(s reading) bool {
				return s.meets(deleted) && (s.at == 0 || r.bug != purgesUnchecked)
			}) {
				return true
			}
		}
		for key, w := range r.commits[seq] {
			if !r.unchecked(w) && slices.ContainsFunc(t.reads, func(s reading) bool { return r.hits(s, key) }) {
				return true
			}
		}
	}
	return false
}

// unchecked reports whether the store does not validate reads against a write.
func (r *reference) unchecked(w write) bool {
	return r.bug == deletesUnchecked && w.deleted ||
		r.bug == mergesUnchecked && len(w.operands) > 0 ||
		r.bug == renewalsUnchecked && w.partial && len(w.operands) == 0
}

// hits reports whether a write to a stored key changes what was read.
func (r *reference) hits(s reading, key string) bool {
	at := stampOf(key)
	switch {
	case !s.holds(key):
		return false
	case s.at == 0:
		return true
	case at > s.at:
		return r.bug == laterChecked
	case at == s.at:
		return r.bug != timesUnchecked && r.bug != sameTimeUnchecked
	}
	return r.bug != timesUnchecked && r.bug != earlierUnchecked
}
