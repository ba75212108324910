// Package bench fills a database, measures it, and checks every answer. A value
// follows from its key and version, so every answer can be compared with the
// correct one.
//
// # Keys
//
// A key is "vsz=%05d-k=%010d", with the value size and a number. The load writes 63.2 % of
// a space of numbers, in an order that looks random. A read of a uniformly drawn number
// therefore finds a value in 63.2 % of all cases. A load that draws as many keys at random
// as there are numbers would write the same share.
//
// # Values
//
// A value is a stream of pseudo-random words that follows from the seed, the
// number of its key and its version. It does not compress, and any part of it
// can be computed alone. Measured reads compare the length and the first and
// last 8 bytes. Verifications compare every byte. With Config.Text all words of
// a value but the first come from a few phrases, so that it compresses to less
// than half.
//
// # Versions
//
// The oracle holds the current version of each key, in one byte per key. Only
// one goroutine writes a key, so the last write of a key is always known.
package bench
