package faultfs

import (
	"errors"
	"io"
	"math/rand/v2"
	"path"
	"strings"
	"sync"

	"github.com/stoatdb/stoat/vfs"
)

// ErrInjected is found by errors.Is in every error that a Rule caused, beside
// the error that the rule names.
var ErrInjected = errors.New("faultfs: injected fault")

// A Rule makes calls of a Faults fail. Its zero value makes the next call
// fail with ErrIO, whatever it is.
type Rule struct {
	// Op is the operation. OpAny matches all.
	Op vfs.OpKind
	// Category is that of the file; for calls that name a file by its path,
	// the one it was created or opened with. CatNone matches all.
	Category vfs.Category
	// Path is a pattern of path.Match for the last element or the whole path
	// if it contains one of *?[, and else a part of the path. Empty matches
	// all. Of Rename and Link either name may match.
	Path string
	// Nth is the first matching call that fails, counted from 1. 0 means 1.
	Nth int64
	// Forever makes all matching calls from the Nth fail, not only that one.
	Forever bool

	// Err is what the call returns. nil means ErrIO. ErrUnsupported makes a
	// Preallocate one that reserves nothing, which is no failure.
	Err error
	// Done carries the call out, or tries to, before it is reported as failed,
	// as happens when only the answer was lost. Close always closes.
	Done bool
	// Partial is the bytes that a failing read or write moves first.
	Partial int
	// Sync is what becomes of the data of a failing SyncData, Sync, SyncDir or
	// WaitRange.
	// On a disk other than a Mem, SyncKept syncs and the others do nothing.
	Sync vfs.SyncFate
	// Seed chooses what a failing sync with SyncHalf keeps.
	Seed uint64
}

// Faults is an FS that passes calls on to another and fails those that its
// rules say. Without rules it behaves as the other does.
type FS struct {
	inner vfs.FS
	mu    struct {
		sync.Mutex
		calls    int64
		rules    []*Fault
		observer func(vfs.Op)
		cats     map[string]vfs.Category
		last     vfs.Op
		failed   int64
	}
}

// NewFaults returns inner with no rules.
func New(inner vfs.FS) *FS {
	f := &FS{inner: inner}
	f.mu.cats = map[string]vfs.Category{}
	return f
}

// A Fault is a rule in force.
type Fault struct {
	owner   *FS
	rule    Rule
	matched int64
	fired   int64
}

// Add puts a rule in force. Where several would fail a call, the one added
// first does; all count it.
func (f *FS) Add(r Rule) *Fault {
	if r.Err == nil {
		r.Err = vfs.ErrIO
	}
	r.Nth = max(r.Nth, 1)
	fault := &Fault{owner: f, rule: r}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.rules = append(f.mu.rules, fault)
	return fault
}

// Fired returns how many calls the rule has made fail.
func (t *Fault) Fired() int64 {
	t.owner.mu.Lock()
	defer t.owner.mu.Unlock()
	return t.fired
}

// Clear ends all rules.
func (f *FS) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.rules = nil
}

// Calls returns how many calls there were, failed ones included. All methods
// of FS, File and Mapping count except those that only compute: Join, Base,
// Dir, Name and Bytes.
func (f *FS) Calls() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.calls
}

// Failed returns how many calls rules have made fail, and the last of them.
func (f *FS) Failed() (int64, vfs.Op) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.failed, f.mu.last
}

// Observe makes fn run before each call, in the goroutine that makes it and
// outside all locks. nil ends it.
func (f *FS) Observe(fn func(vfs.Op)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.observer = fn
}

// announce completes op with the category of its path and shows it to the
// observer.
func (f *FS) announce(op vfs.Op) vfs.Op {
	f.mu.Lock()
	if op.Category == vfs.CatNone {
		op.Category = f.mu.cats[op.Path]
	}
	observer := f.mu.observer
	f.mu.Unlock()
	if observer != nil {
		observer(op)
	}
	return op
}

// call counts a call and returns the rule that makes it fail, or nil.
func (f *FS) call(op vfs.Op) *Rule {
	op = f.announce(op)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.calls++
	var failing *Rule
	for _, t := range f.mu.rules {
		if !t.rule.matches(op) {
			continue
		}
		t.matched++
		due := t.matched == t.rule.Nth || t.rule.Forever && t.matched > t.rule.Nth
		if due && failing == nil {
			t.fired++
			failing = &t.rule
		}
	}
	if failing != nil {
		f.mu.failed++
		f.mu.last = op
	}
	return failing
}

func (r *Rule) matches(op vfs.Op) bool {
	if r.Op != vfs.OpAny && r.Op != op.Kind {
		return false
	}
	if r.Category != vfs.CatNone && r.Category != op.Category {
		return false
	}
	return r.Path == "" || matchPath(r.Path, op.Path) || op.NewPath != "" && matchPath(r.Path, op.NewPath)
}

func matchPath(pattern, name string) bool {
	if !strings.ContainsAny(pattern, "*?[") {
		return strings.Contains(name, pattern)
	}
	// A pattern that is not well formed matches nothing.
	base, _ := path.Match(pattern, name[strings.LastIndexAny(name, `/\`)+1:])
	whole, _ := path.Match(pattern, name)
	return base || whole
}

// fail returns the error of the rule for a call.
func (r *Rule) fail(op vfs.OpKind, name string) error {
	if r.Err == io.EOF {
		return io.EOF // which readers compare with ==
	}
	return vfs.WrapError(op, name, &injectedError{r.Err})
}

// An injectedError is the error of a rule. errors.Is finds ErrInjected in it as
// well.
type injectedError struct{ cause error }

func (e *injectedError) Error() string { return e.cause.Error() }

func (e *injectedError) Unwrap() []error { return []error{e.cause, ErrInjected} }

// run makes a call that has no result but its error.
func (f *FS) run(op vfs.Op, inner func() error) error {
	rule := f.call(op)
	if rule == nil {
		return inner()
	}
	if rule.Done {
		_ = inner() // the rule's error stands for both
	}
	return rule.fail(op.Kind, op.Path)
}

// generator returns the randomness of a rule.
func (r *Rule) generator() *rand.Rand { return rand.New(rand.NewPCG(r.Seed, uint64(r.Nth))) }

// fate is what a failing sync does; Done says SyncKept in another way.
func (r *Rule) fate() vfs.SyncFate {
	if r.Done {
		return vfs.SyncKept
	}
	return r.Sync
}
