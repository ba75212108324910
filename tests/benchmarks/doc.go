// Package benchmarks measures whole databases through the public API. make bench
// runs it.
package benchmarks
