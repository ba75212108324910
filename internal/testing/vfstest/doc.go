// Package vfstest has the conformance suite of file systems, which runs what every
// vfs.FS must do alike, and helpers for the tests of the file systems. Only tests
// import it.
package vfstest
