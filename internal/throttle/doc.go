// Package throttle holds commits back when they outrun background jobs.
//
// While flushes, compaction or garbage collection fall behind, each group of
// commits waits in proportion to its size and to how far they are behind. When
// the memory for memtables is used up, commits wait until a flush has freed some,
// and fail with the error of the flush if it cannot.
//
// The throttle learns of the state by values: how full memory is, how large the
// debt of compaction is, how much of the value files is garbage.
package throttle
