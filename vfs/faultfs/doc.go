// Package faultfs wraps a file system and makes chosen calls fail.
//
// A [Rule] selects calls by operation, category, path and number, and gives the error.
// [FS.Add] activates it. A test can make every single call of a run fail once, with
// Rule.Nth from 1 up, until the rule does not fire any more. See the example.
//
// The simulated disk of package vfs/memfs can also lose the data of a failed sync; see
// Rule.Sync.
package faultfs
