// Package measure measures what a workload uses: time by percentile, memory,
// processor time, bytes written to the device, and space in the file system.
//
// The figures of a process come from /proc, so they exist only on Linux. On
// other systems they are absent from the results, not zero.
package measure
