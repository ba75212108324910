// Package bits damages databases that are at rest: bits, sectors, lengths and whole
// files. Opening and reading must give an error or exactly what was written.
package bits
