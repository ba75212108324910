// Package diskfull fills disks, real ones and simulated ones. A full disk must be
// nothing but ErrNoSpace to a program, and deleting must make room by itself.
package diskfull
