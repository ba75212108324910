// Package memfs simulates a disk in memory that can lose power.
//
// [New] returns a disk that records what is durable and what no sync has covered yet.
// [FS.Crash] returns a copy of the disk as a power cut might leave it. [CrashKind]
// describes which states are legal, and lists the kinds of states to choose from.
//
// A crash test runs code on a disk and takes a [FS.Clone] at some of its operations,
// for example from a hook ([FS.SetHook]). It then opens a Crash of each clone, and
// checks that everything that the code had reported as durable is there.
//
// [NewVolatile] returns a disk without these records. It suits databases that live in
// memory.
//
// Paths use the slash on every system. A relative path starts at the root.
package memfs
