// Package throttle holds commits back when they outrun background jobs.
//
// While flushes, compaction or garbage collection fall behind, each group of commits waits
// in proportion to its size and to how far they are behind. When the memory for memtables
// is used up, commits wait until a flush has freed some. If the flush cannot, they fail
// with its error.
//
// The throttle gets the state as values. They say how full memory is, how large the debt of
// compaction is, and how much of the value files is garbage.
package throttle
