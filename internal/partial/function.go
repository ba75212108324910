package partial

import (
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
)

// A Function merges operands into values. All methods must be pure: the same arguments
// give the same result. Any goroutine may call them at any time.
type Function interface {
	Name() string
	// Merge appends to dst what the operands, the oldest first, make of the existing
	// value of key. existing is nil if there is none. It must not keep or change its
	// arguments, except for dst.
	Merge(dst, key, existing []byte, operands [][]byte) ([]byte, error)
}

// A Combiner is an associative Function: several operands can be merged into one.
type Combiner interface {
	Function
	// Combine appends to dst one operand that does the same as the operands, the oldest
	// first.
	Combine(dst, key []byte, operands [][]byte) ([]byte, error)
}

// ErrNoFunction says that a merge function is not registered.
var ErrNoFunction = errors.New("stoat: the merge function is not registered")

// ErrFunction wraps the errors and panics of merge functions.
var ErrFunction = errors.New("stoat: the merge function failed")

// Functions are the registered merge functions. A nil Functions has none.
type Functions struct {
	// named returns the name of the function that a stored key uses, or "".
	named  func(key []byte) string
	byName map[string]Function
}

// NewFunctions registers functions.
func NewFunctions(named func(key []byte) string, functions []Function) *Functions {
	fs := &Functions{named: named, byName: make(map[string]Function, len(functions))}
	for _, f := range functions {
		fs.byName[f.Name()] = f
	}
	return fs
}

// Of returns the function of a key. Without one, the error wraps ErrNoFunction.
func (fs *Functions) Of(key []byte) (Function, error) {
	name := ""
	if fs != nil {
		name = fs.named(key)
		if f := fs.byName[name]; f != nil {
			return f, nil
		}
	}
	if name == "" {
		return nil, fmt.Errorf("%w: the keyspace has none", ErrNoFunction)
	}
	return nil, fmt.Errorf("%w: %q", ErrNoFunction, name)
}

// Value returns what an outcome's operands make of the value of its base. existing is
// that value, which matters only if FromBase is set. The outcome has operands.
func (o *Outcome) Value(f Function, key, existing []byte) ([]byte, error) {
	if !o.FromBase {
		existing = nil
	} else if existing == nil {
		existing = []byte{}
	}
	value, err := guarded(func() ([]byte, error) { return f.Merge(nil, key, existing, o.Operands) })
	if err == nil && uint64(len(value)) > base.MaxValueSize {
		err = fmt.Errorf("a value of %d bytes, of at most %d", len(value), uint64(base.MaxValueSize))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFunction, f.Name(), err)
	}
	if value == nil {
		value = []byte{}
	}
	return value, nil
}

// guarded calls f and turns a panic into an error. A fault in a mapped file is no panic of f:
// it goes on to the caller, which guards against it.
func guarded(f func() ([]byte, error)) (b []byte, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if vfs.MappingFault(p) != nil {
			panic(p)
		}
		b, err = nil, fmt.Errorf("panic: %v", p)
	}()
	return f()
}
