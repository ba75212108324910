// Package stamp translates between the versions of a keyspace with timestamps and
// keys. The caller chooses the timestamps, and versions may arrive in any order. So
// each version is an entry with a key of its own:
//
//	size  field
//	...   the user's key, each byte 0 followed by a byte 0xff
//	2     0 and 1: the end of the user's key
//	8     the complement of the timestamp, big endian
//
// Encoded keys have the order of the users' keys. The versions of one key follow each
// other, the latest timestamp first. The end of a user's key is the first place where
// a byte other than 0xff follows a byte 0. So what precedes the timestamp is no prefix
// of another key, and no version of another key comes between the versions of one.
//
// With keys a and a\x00:
//
//	61 00 01 ^9          a at 9
//	61 00 01 ^5          a at 5
//	61 00 ff 00 01 ^7    a\x00 at 7
package stamp
