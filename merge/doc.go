// Package merge has merge functions for stoat: counters, sets, appends and bounded lists.
//
// A program registers a function and writes operands:
//
//	db, err := stoat.Open(dir, &stoat.Options{
//		MergeFunction: merge.Counter.Name(), MergeFunctions: []stoat.MergeFunction{merge.Counter},
//	})
//	…
//	err = db.Update(func(tx stoat.Txn) error { return tx.Merge(key, merge.Add(1)) })
//
// All functions of this package combine operands. A value or an operand that a function
// does not understand is an error of the read; see stoat.ErrMerge.
package merge

import "errors"

// ErrEncoding says that a value or an operand is not of the form that its function wants.
var ErrEncoding = errors.New("merge: bad encoding")
