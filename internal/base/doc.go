// Package base holds the vocabulary that all other packages of stoat share. It has sequence
// numbers, kinds of entries, entry metadata, the key hash, file names, the clock, and the
// error that reports corruption. It does no I/O.
package base
