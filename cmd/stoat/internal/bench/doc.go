// Package bench fills a database, measures it, and believes nothing: every
// value can be computed from its key and version, and every answer of the
// database is compared with what it must be.
//
// # Keys
//
// A key is "vsz=%05d-k=%010d", the value size and a number. The numbers lie
// in a space chosen so that 63.2 % of it is loaded, in an order that looks
// random; a number drawn uniformly from the space therefore finds a value in
// 63.2 % of all reads, as if the keys had been drawn at random with as many
// draws as there are numbers.
//
// # Values
//
// A value is a stream of pseudo-random words that starts from the seed, the
// number of its key and its version, so it can not be compressed, and any
// part of it can be computed alone. Measured reads compare the length and the
// first and last 8 bytes; the verifications compare all. With Config.Text all
// words but the first of a value are drawn from a few, so that a compressor
// takes more than half of it away.
//
// # Versions
//
// The oracle holds the version that each key must show, one byte a key. A
// goroutine that writes owns the keys it writes, so there is never a doubt
// about which write came last.
package bench
