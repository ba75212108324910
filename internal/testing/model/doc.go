// Package model is what a stoat database means, without any of what makes it
// fast or durable: a sorted map that remembers every version of every key,
// transactions over it, and the rule that says which commits conflict. The
// tests run the database and the model side by side and demand the same
// answers.
//
// It is written to be read and believed, not to share ideas with the engine:
// a Map is a sorted slice, a read is a binary search, a conflict is found by
// walking the commits since the snapshot and comparing keys.
package model
