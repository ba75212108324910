// Package workload has the loads, reads and mixes that the stores are
// compared by, and checks every answer a store gives.
//
// Keys are numbers in a text of 22 bytes; a value can be computed from the
// number of its key and the version of its write. So a reader knows of each
// key whether it must be there, and of each value whether it is the one last
// written, and nothing has to be remembered but a bit or a version per key.
//
// A workload runs in a process of its own: Execute runs one and returns what
// it measured.
package workload
