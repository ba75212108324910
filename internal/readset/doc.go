// Package readset records what a transaction has read, so that its commit finds
// conflicts.
package readset
