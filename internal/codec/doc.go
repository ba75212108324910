// Package codec compresses and decodes values.
//
// It compresses a block of values of a table, or one value of a value file. Both
// store the decoded length next to the compressed bytes. This bounds the memory
// of decoding: Decode fills exactly that length or fails.
//
// A Compressor keeps the compressed form only if it saves an eighth. It gives up
// quickly on data that does not shrink. An Arena holds decoded values while a
// transaction borrows them.
package codec
