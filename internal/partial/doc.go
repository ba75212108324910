// Package partial describes partial entries. A partial entry says only a part of what
// its key has, and refers to the next older version of the key. It holds operands of a
// merge function, and renewals, which are new expiry times.
//
// A reader that meets a partial entry collects older versions of the key, down to the
// first whole entry: a value, a tombstone, or nothing. That is the base. The reader then
// folds: it applies the steps of the partial entries to the base, the oldest first. The
// outcome depends on the entries alone, not on the time of the fold. So a flush or a
// compaction may fold first, and every reader gets the same.
//
// For that, each step carries its time, the time of the commit that wrote it. A
// step finds a value with an expiry time only if its own time is before that. An
// operand that finds no value starts from nothing, and its result never expires. A
// renewal that finds no value does nothing.
package partial
