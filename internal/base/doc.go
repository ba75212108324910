// Package base holds the vocabulary that every other package of stoat
// shares: sequence numbers, kinds of entries, the metadata of an entry, the
// key hash, file names, the clock, and the error that says a file is corrupt.
// It does no I/O.
package base
