// Package readers knows the readers of a database: each holds a slot of the registry,
// which has the snapshot that it reads.
package readers
