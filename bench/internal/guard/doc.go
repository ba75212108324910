// Package guard measures two sides in turns, and decides whether the new one is
// slower than a limit allows. The sides are two revisions of stoat, or stoat
// without and with encryption.
package guard
