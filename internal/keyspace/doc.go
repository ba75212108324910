// Package keyspace translates between the keys of users and stored keys. All
// keyspaces share one tree. The first bytes of a stored key tell its keyspace:
//
//	stored key                        means
//	first byte below 0xff             a key of the default keyspace
//	0xff 0x00, then the key           a key of the default keyspace that begins
//	                                  with 0xff
//	0xff n, then the key              a key of keyspace n, for n from 1 to 240
//	0xff 0xf1, 4 bytes, then the key  a key of the keyspace with this number, big
//	                                  endian, from 241
//
// No other stored keys exist. Within a keyspace, stored keys have the order of the
// users' keys. So a range of keys is a range of stored keys.
package keyspace
