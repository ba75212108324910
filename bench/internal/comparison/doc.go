// Package comparison plans the jobs of a run, has a child process execute
// each of them, and keeps what they measured in a file of JSON lines, from
// which an interrupted run goes on.
//
// The jobs are ordered so that the stores take turns: a store's neighbours in
// time are the other stores with the same workload, and a machine that gets
// slower in the afternoon gets slower for all. The first store of a turn is
// another one in every repeat.
package comparison
