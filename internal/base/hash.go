package base

import "github.com/zeebo/xxh3"

// Hash is the hash of a user key, the same for every structure of one
// database, so that a read computes it once. The seed is the database's own
// and random, so that nobody can prepare keys that collide.
func Hash(key []byte, seed uint64) uint64 { return xxh3.HashSeed(key, seed) }

// Checksum is the checksum of stored bytes. Each file mixes a salt of its own
// into the seed, so that bytes left over from a file's earlier life never
// verify.
func Checksum(b []byte, seed uint64) uint64 { return xxh3.HashSeed(b, seed) }
