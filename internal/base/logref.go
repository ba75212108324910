package base

// A SegmentRef names one use of a log segment file. Number is the segment's
// position in the log, and File is the number in its file name. Salt
// distinguishes this use of the file from earlier ones.
type SegmentRef struct {
	Number uint64
	File   uint64
	Salt   uint64
}

// A LogSpan is what one opening of the database wrote to the log: a chain of
// segments that starts at First. The newest span is open. Recovery seals every
// older one.
type LogSpan struct {
	First SegmentRef
	// Sealed says that the span ended in segment EndNumber at offset End, after
	// a frame with checksum EndChain. Bytes after that in the segment are a torn
	// tail that was never acknowledged. A gap before it is corruption.
	Sealed    bool
	EndNumber uint64
	End       int64
	EndChain  uint64
}
