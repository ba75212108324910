// Package layers holds the shape of the module: which package may import
// which (the floors), which packages may use the operating system, unsafe and
// code of other modules. Its test reads the imports of every Go file and
// fails on the first step across a line.
//
// The files are parsed here, in the process of the test, rather than by a
// child `go list`: the test cache watches the files that a test itself opens,
// so that a cached "ok" can not hide a violation.
package layers
