// Package powercut cuts the power of ext4 and XFS on loop devices beneath databases
// that are written to. It needs Linux and root.
package powercut
