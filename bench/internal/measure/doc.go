// Package measure counts what a workload takes: time by percentile, memory,
// processor, bytes to the device and space in the file system.
//
// What a process does is read from /proc, so those figures exist on Linux
// only. Elsewhere they are absent from the results, not zero.
package measure
