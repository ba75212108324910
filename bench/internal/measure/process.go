package measure

// Usage is what the process has used since it began.
type Usage struct {
	CPUSeconds   float64
	WrittenBytes int64 // handed to the device, or dirtied and on the way to it
	ReadBytes    int64 // fetched from the device
	Known        bool  // false where the system does not tell
}

// Sub returns what was used between before and u.
func (u Usage) Sub(before Usage) Usage {
	return Usage{
		CPUSeconds:   u.CPUSeconds - before.CPUSeconds,
		WrittenBytes: u.WrittenBytes - before.WrittenBytes,
		ReadBytes:    u.ReadBytes - before.ReadBytes,
		Known:        u.Known && before.Known,
	}
}

// Memory is what the process occupies now.
type Memory struct {
	AnonymousBytes int64 // heap, stacks, and memory obtained outside the heap
	FileBytes      int64 // mapped file pages, which the system can take back
	PeakBytes      int64 // the highest sum of both so far
	Known          bool
}
