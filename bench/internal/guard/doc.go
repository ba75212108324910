// Package guard decides whether a change makes stoat slower. It compares two
// programs, old and new, that were measured in turns, and it measures them.
package guard
