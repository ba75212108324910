//go:build !linux

package vfs

// ReadMachineMemory returns ErrUnsupported on this system.
func ReadMachineMemory() (MachineMemory, error) { return MachineMemory{}, ErrUnsupported }
