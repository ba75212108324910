package transaction

import (
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/settings"
)

// Functions returns the merge functions of a database. They are the user's, so they
// take keys of the user.
func Functions(table *settings.Table, users []partial.Function) *partial.Functions {
	functions := make([]partial.Function, len(users))
	for i, f := range users {
		functions[i] = storedFunction{f}
		if c, ok := f.(partial.Combiner); ok {
			functions[i] = storedCombiner{storedFunction{f}, c}
		}
	}
	named := func(stored []byte) string { return table.OfKey(stored).MergeFunction }
	return partial.NewFunctions(named, functions)
}

// A storedFunction is a user's function for stored keys.
type storedFunction struct{ partial.Function }

// Merge implements partial.Function.
func (f storedFunction) Merge(dst, key, existing []byte, operands [][]byte) ([]byte, error) {
	return f.Function.Merge(dst, UserKey(key), existing, operands)
}

// A storedCombiner is a user's combiner for stored keys.
type storedCombiner struct {
	storedFunction
	combiner partial.Combiner
}

// Combine implements partial.Combiner.
func (f storedCombiner) Combine(dst, key []byte, operands [][]byte) ([]byte, error) {
	return f.combiner.Combine(dst, UserKey(key), operands)
}

// UserKey returns the user's part of a stored key.
func UserKey(stored []byte) []byte {
	if _, key, err := keyspace.Decode(stored); err == nil {
		return key
	}
	return stored // damage, which a reader meets
}
