// Package timestamps plays random lives of databases whose keyspaces have timestamps. It
// compares every read with a model, which is a map with all versions of all keys.
package timestamps
