package measure

// Usage is the resources that the process has used since it started.
type Usage struct {
	CPUSeconds   float64
	WrittenBytes int64 // written to the device, or dirty and not written yet
	ReadBytes    int64 // read from the device
	Known        bool  // false where the system does not report usage
}

// Sub returns the usage between before and u.
func (u Usage) Sub(before Usage) Usage {
	return Usage{
		CPUSeconds:   u.CPUSeconds - before.CPUSeconds,
		WrittenBytes: u.WrittenBytes - before.WrittenBytes,
		ReadBytes:    u.ReadBytes - before.ReadBytes,
		Known:        u.Known && before.Known,
	}
}

// Memory is the memory that the process occupies now.
type Memory struct {
	AnonymousBytes int64 // heap, stacks, and memory outside the Go heap
	FileBytes      int64 // mapped file pages, which the system can take back
	PeakBytes      int64 // the highest sum of both so far
	Known          bool
}
