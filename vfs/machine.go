package vfs

// MachineMemory is the memory that the process can use: the memory of the machine, or
// less if a control group limits it.
type MachineMemory struct {
	// Total is the amount of memory in bytes.
	Total int64
	// Available is the amount in bytes that is free or becomes free when the system
	// drops pages of the page cache. Using it causes no swapping.
	Available int64
}
