// Package timestamps plays random lives of databases whose keyspaces have timestamps,
// and compares every read with a model: a map with all versions of all keys.
package timestamps
