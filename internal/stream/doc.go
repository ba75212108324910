// Package stream reads a snapshot with several goroutines.
//
// The snapshot is cut into ranges of about a megabyte, at keys where tables and blocks of
// the largest level begin. Workers read ranges, and one goroutine gets their batches: in
// the order of the ranges, or as they come. Each range has room for a fixed number of
// batches, and a fixed number of ranges are under way. So memory is bounded, and a slow
// consumer stops the workers.
//
// With ordered ranges, the room of a range is about its size. So the workers are rarely
// stopped by the order.
package stream
