// Package codec compresses values and decodes them again.
//
// What is compressed is a block of values of a table, or one value of a value
// file. Both store beside it how long it is decoded, which bounds what decoding
// it may take: Decode fills memory of exactly that length or fails.
//
// A Compressor keeps the compressed form only where that saves an eighth, and
// gives up quickly on data that does not shrink. An Arena is where decoded
// values live while a transaction borrows them.
package codec
