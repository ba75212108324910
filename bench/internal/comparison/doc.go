// Package comparison plans the jobs of a run, executes each in a child process,
// and appends the results to a file of JSON lines. An interrupted run resumes
// from that file.
//
// The stores take turns: all run one workload before any runs the next. A
// machine that becomes slower thus becomes slower for all of them. Another store
// begins the turn in every repeat. Only the limited workloads run store by store,
// to keep one of their large databases at a time.
package comparison
