package faultfs

import (
	"errors"
	"io"
	"math/rand/v2"
	"path"
	"strings"

	"github.com/stoatdb/stoat/vfs"
)

// ErrInjected marks injected errors: errors.Is finds it in the error of every call that a
// Rule made fail. The exception is io.EOF, which FS returns as it is.
var ErrInjected = errors.New("faultfs: injected fault")

// A Rule makes calls of an FS fail. The zero Rule makes the next call of any kind fail
// with vfs.ErrIO.
type Rule struct {
	// Op is the operation. vfs.OpAny matches all.
	Op vfs.OpKind
	// Category is the category of the file. For calls that take a path, it is the
	// category with which the file was last created or opened through the FS.
	// vfs.CatNone matches all.
	Category vfs.Category
	// Path selects files and directories. If it contains *, ? or [, it is a pattern of
	// path.Match that must match the last element or the whole path. Otherwise the path
	// must contain it. Either name of Rename and Link may match. Empty matches all.
	Path string
	// Nth is the number of the first matching call that fails, counted from 1. Default: 1.
	Nth int64
	// Forever makes all matching calls from the Nth on fail, instead of that one only.
	Forever bool

	// Err is the error of the call. Default: vfs.ErrIO. If it is vfs.ErrUnsupported,
	// Preallocate does not fail but grows the file without reserving space.
	Err error
	// Done makes the FS carry out the call before it returns the error, as if only the
	// answer was lost. Close always closes.
	Done bool
	// Partial is the number of bytes that a failing read or write transfers.
	Partial int
	// Sync is the fate of the data of a failing Sync, SyncData, SyncDir or WaitRange. It
	// takes effect on files of vfs/memfs and others that implement FailSync (see
	// vfs.SyncFate). On other files, vfs.SyncKept carries out the sync, and all other
	// fates do nothing.
	Sync vfs.SyncFate
	// Seed selects what a failing sync with the fate vfs.SyncHalf keeps.
	Seed uint64
}

// A Fault is an active rule.
type Fault struct {
	owner   *FS
	rule    Rule
	matched int64
	fired   int64
}

// Add activates a rule. If several rules make a call fail, the one that was added first
// determines how. All of them count the call.
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

// Fired returns how many calls failed because of the rule.
func (t *Fault) Fired() int64 {
	t.owner.mu.Lock()
	defer t.owner.mu.Unlock()
	return t.fired
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
	// A malformed pattern matches nothing.
	base, _ := path.Match(pattern, name[strings.LastIndexAny(name, `/\`)+1:])
	whole, _ := path.Match(pattern, name)
	return base || whole
}

// fail returns the error of the rule for a call.
func (r *Rule) fail(op vfs.OpKind, name string) error {
	if r.Err == io.EOF {
		return io.EOF // readers compare it with ==
	}
	return vfs.WrapError(op, name, &injectedError{r.Err})
}

// An injectedError marks the error of a rule. errors.Is also finds ErrInjected in it.
type injectedError struct{ cause error }

func (e *injectedError) Error() string { return e.cause.Error() }

func (e *injectedError) Unwrap() []error { return []error{e.cause, ErrInjected} }

// generator returns the random numbers of a rule.
func (r *Rule) generator() *rand.Rand { return rand.New(rand.NewPCG(r.Seed, uint64(r.Nth))) }

// fate returns the fate of the data of a failing sync. Done implies SyncKept.
func (r *Rule) fate() vfs.SyncFate {
	if r.Done {
		return vfs.SyncKept
	}
	return r.Sync
}
