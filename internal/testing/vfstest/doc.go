// Package vfstest has a conformance suite for implementations of vfs.FS, and helpers for
// the tests of file systems. Only tests import it.
package vfstest
