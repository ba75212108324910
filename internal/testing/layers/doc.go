// Package layers holds the shape of the module. The shape says which package may import
// which (the floors). It also says which packages may use the operating system, unsafe and
// code of other modules. Its test reads the imports of every Go file. It fails on an import
// that the shape does not allow, and on a row of the shape that the module no longer uses.
//
// The test parses the files itself instead of running `go list`. The test cache watches
// only files that the test process opens. With a child process, a cached "ok" could hide a
// violation.
package layers
