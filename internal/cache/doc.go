// Package cache is the block cache. It keeps decoded blocks of tables, outside
// the Go heap.
//
// Uncompressed blocks need no cache, because readers use a mapping of the file.
// Without the cache, each read of a value from a compressed block would decode
// the whole block. The cache decodes a block once while it is in use.
//
// Read copies the part that the caller asks for. So the cache may drop a block
// at any time, and its memory is bounded whatever readers hold.
package cache
