// Package stress runs writers, readers and reopening beside each other, and looks
// for lost updates and for goroutines and memory that pile up.
package stress
