//go:build !linux

package measure

// ProcessUsage is unknown on this system.
func ProcessUsage() Usage { return Usage{} }

// ProcessMemory is unknown on this system.
func ProcessMemory() Memory { return Memory{} }
