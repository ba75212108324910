// Package jobs keeps the tree in shape: it flushes memtables, merges tables, and
// restores the order of values.
//
// Every job has three parts. They are a pure decision, a run that writes new files to which
// nothing refers, and one manifest edit that makes them live. A crash before the edit
// leaves orphans; there is no third state. Most decisions are made by package compact;
// those that depend on more than a version are in this package, as functions of plain
// values.
package jobs
