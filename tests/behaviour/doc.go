// Package behaviour tests the public API, one topic a file: what callers may rely
// on, in the small. Topics with a source file in the root are tested beside it.
package behaviour
