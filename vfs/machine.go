package vfs

// MachineMemory is how much memory the process can have: what the machine has,
// or less where a control group limits it.
type MachineMemory struct {
	Total int64
	// Available is how much of it is free or can be had without swapping, by
	// dropping pages of files.
	Available int64
}
