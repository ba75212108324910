package isolation

import (
	"fmt"
	"slices"
	"strings"
)

// A Store is the store under test.
type Store interface {
	// Begin starts a transaction. With write false it is read-only.
	Begin(write bool) (Tx, error)
}

// An Updater is a Store that runs transactions again after conflicts.
type Updater interface {
	Store
	// Update runs do in a transaction, and commits the transaction if do returns nil. After
	// a conflict it does so again, at most retries times. It returns the error of do.
	Update(retries int, do func(Tx) error) (Commit, error)
}

// A Tx is a transaction of a Store. One goroutine uses it.
type Tx interface {
	// ReadVersion returns the number of the newest commit that the transaction
	// sees.
	ReadVersion() uint64
	Get(key string) (Item, bool, error)
	// Scan reads items of [q.Lo, q.Hi) until it has q.Limit of them, if that is
	// not 0. It reports whether it reached the end of the range. A scan that
	// stopped at its limit has not read further.
	Scan(q Query) (items []Item, exhausted bool, err error)
	Set(key, value string) error
	// Merge writes an operand for key, which reads nothing. See History.Counts.
	Merge(key, operand string) error
	// Renew gives the value of key another expiry time, far away, and reads nothing.
	// If there is no value, it does nothing.
	Renew(key string) error
	Delete(key string) error
	// DeleteRange deletes [lo, hi), at all timestamps. An empty hi means no end. It
	// reads nothing, and counts as a write of every key in the range, present or not.
	DeleteRange(lo, hi string) error
	// At sets the timestamp of the operations that follow. Only transactions of a
	// history with timestamps are given one.
	At(timestamp uint64)
	// Commit ends the transaction. After an error it is unknown whether the
	// commit took place.
	Commit() (Commit, error)
	Discard()
}

// A Commit is the result of committing.
type Commit struct {
	Conflict bool
	// Version is the commit version. It is 0 if nothing was written or if Untold
	// is not 0.
	Version uint64
	// Untold marks a commit whose version the store does not report. It is the
	// commit's rank among these, from 1, in the order of their versions.
	Untold uint64
}

// An Item is one key as a read shows it. Version is the newest commit that wrote it
// or added to it, or 0 for one with a write of the reading transaction itself. A
// key-only scan leaves Value empty.
type Item struct {
	Key, Value string
	Version    uint64
	// At is the timestamp. Deleted says that the key has no value from At on. Only a
	// scan with Query.All shows such an item.
	At      uint64
	Deleted bool
}

// A Query is a scan. An empty Hi means no end.
type Query struct {
	Lo, Hi   string
	Reverse  bool
	KeysOnly bool
	Limit    int
	// All, at a timestamp, is for the versions of all timestamps up to it, with
	// deletions. Those of one key come with descending timestamps, or with ascending
	// ones if Reverse.
	All bool
}

// An OpKind is a kind of operation.
type OpKind uint8

// The kinds of operations.
const (
	OpGet OpKind = iota + 1
	OpScan
	OpSet
	OpDelete
	OpDeleteRange
	OpMerge
	OpRenew
)

// An Op is one operation with its answer.
type Op struct {
	Kind  OpKind
	Key   string // all kinds for one key
	Value string // set; for OpMerge, the operand
	At    uint64 // the timestamp, in a history with timestamps

	Found bool // get
	Item  Item // get

	Query     Query // scan; for OpDeleteRange, its bounds
	Items     []Item
	Exhausted bool
}

// An Outcome is how a transaction ended.
type Outcome uint8

// The outcomes.
const (
	Committed Outcome = iota + 1
	Conflicted
	Discarded
)

// String names the outcome.
func (o Outcome) String() string {
	return [...]string{"running", "committed", "conflicted", "discarded"}[o]
}

// A Txn is what one client saw of one transaction. The four times are ticks of one counter.
// Two are just before and just after the call of Begin. Two are just before and just after
// the call that ended the transaction.
type Txn struct {
	Client, Number int

	BeginCalled, Began int64
	EndCalled, Ended   int64

	ReadVersion   uint64
	CommitVersion uint64 // 0 unless it committed writes
	Untold        uint64 // Commit.Untold; Check then finds the version
	Outcome       Outcome
	Ops           []Op
	// Inside says that the transaction is a run of Update. What it read is known when
	// Update returns. So what all runs but the last read is never known.
	Inside bool
}

// Writes reports whether the transaction tried to write.
func (t *Txn) Writes() bool {
	return slices.ContainsFunc(t.Ops, func(o Op) bool { return o.Kind >= OpSet })
}

// String formats a transaction as one line.
func (t *Txn) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "txn %d.%d [%d,%d] %v read@%d", t.Client, t.Number, t.BeginCalled, t.Ended, t.Outcome, t.ReadVersion)
	if t.CommitVersion != 0 {
		fmt.Fprintf(&b, " commit@%d", t.CommitVersion)
	}
	for i := range t.Ops {
		fmt.Fprintf(&b, "; %v", &t.Ops[i])
	}
	return b.String()
}

// String formats an operation and its answer.
func (o *Op) String() string {
	if o.At != 0 {
		return fmt.Sprintf("%s (at %d)", o.text(), o.At)
	}
	return o.text()
}

func (o *Op) text() string {
	switch o.Kind {
	case OpGet:
		if !o.Found {
			return fmt.Sprintf("get %s: none", o.Key)
		}
		return fmt.Sprintf("get %s: %v", o.Key, o.Item)
	case OpScan:
		return fmt.Sprintf("scan %v: %s", o.Query, itemsString(o.Items, o.Exhausted))
	case OpSet:
		return fmt.Sprintf("set %s=%s", o.Key, brief(o.Value))
	case OpDeleteRange:
		return fmt.Sprintf("delete range %v", o.Query)
	case OpMerge:
		return fmt.Sprintf("merge %s %s", o.Key, brief(o.Value))
	case OpRenew:
		return "renew " + o.Key
	}
	return "delete " + o.Key
}

// String formats an item.
func (it Item) String() string {
	s := fmt.Sprintf("%s=%s@%d", it.Key, brief(it.Value), it.Version)
	if it.Deleted {
		s = fmt.Sprintf("%s deleted@%d", it.Key, it.Version)
	}
	if it.At != 0 {
		s += fmt.Sprintf("(at %d)", it.At)
	}
	return s
}

// brief returns a value without the paddings of its parts.
func brief(value string) string {
	parts := strings.Split(value, operandSign)
	for i, part := range parts {
		if name, padding, padded := strings.Cut(part, " "); padded {
			parts[i] = fmt.Sprintf("%s+%d", name, 1+len(padding))
		}
	}
	return strings.Join(parts, operandSign)
}

// String formats a query.
func (q Query) String() string {
	s := fmt.Sprintf("[%s,%s)", q.Lo, q.Hi)
	if q.Reverse {
		s += " reverse"
	}
	if q.KeysOnly {
		s += " keys"
	}
	if q.All {
		s += " all"
	}
	if q.Limit != 0 {
		s += fmt.Sprintf(" limit %d", q.Limit)
	}
	return s
}

func itemsString(items []Item, exhausted bool) string {
	var b strings.Builder
	for _, it := range items {
		fmt.Fprintf(&b, "%v ", it)
	}
	if exhausted {
		b.WriteString("end")
	} else {
		b.WriteString("…")
	}
	return b.String()
}

// A History is everything that happened to a store between two idle moments.
type History struct {
	// Base is the version of the newest commit before the history. Initial is
	// the state as of Base, ascending by key. At timestamps, it has all of them.
	Base    uint64
	Initial []Item
	Txns    []*Txn
	// Counts says what operands mean. With it, values and operands are numbers, which
	// add up. Otherwise the value grows by each operand, at its end.
	Counts bool
	// Timed says that every operation has a timestamp.
	Timed bool
}
