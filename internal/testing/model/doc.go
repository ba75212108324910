// Package model is the meaning of a stoat database, without everything that
// makes it fast or durable. It has a sorted map that remembers every version of
// every key, transactions over it, and the rule that says which commits
// conflict. Tests run the database and the model side by side and demand the
// same answers.
//
// The model is simple enough to be believed after reading it, and shares no
// ideas with the engine. A Map is a sorted slice, and a read is a binary search.
// To find a conflict, the model walks over the commits since the snapshot and
// compares keys.
package model
