//go:build !linux

package vfs

// ReadMachineMemory returns ErrUnsupported: this system is not asked.
func ReadMachineMemory() (MachineMemory, error) { return MachineMemory{}, ErrUnsupported }
