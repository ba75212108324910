package base

import "github.com/zeebo/xxh3"

// Hash is the hash of a user key. Every structure of one database uses it, so a
// read computes it once. The seed is random and belongs to the database, so that
// an attacker cannot prepare keys that collide.
func Hash(key []byte, seed uint64) uint64 { return xxh3.HashSeed(key, seed) }

// Checksum is the checksum of stored bytes. Each file mixes its own salt into
// the seed, so that bytes from an earlier use of the file never verify.
func Checksum(b []byte, seed uint64) uint64 { return xxh3.HashSeed(b, seed) }
