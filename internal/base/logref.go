package base

// A SegmentRef names one life of one log segment. The number is the
// segment's place in the log, the file is the number in the file's name, and
// the salt distinguishes this life of the file from its earlier ones.
type SegmentRef struct {
	Number uint64
	File   uint64
	Salt   uint64
}

// A LogSpan is what one opening of the database wrote to the log: a chain of
// segments that starts at First. The newest span is open; each older one was
// sealed by the recovery that followed it.
type LogSpan struct {
	First SegmentRef
	// Sealed says that the span ended in segment EndNumber at offset End,
	// after a frame whose checksum is EndChain. What follows in that segment
	// is a torn tail that was never acknowledged; anything missing before it
	// is corruption.
	Sealed    bool
	EndNumber uint64
	End       int64
	EndChain  uint64
}
