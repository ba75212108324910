package measure

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ProcessUsage returns the usage of this process so far.
func ProcessUsage() Usage {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &ru) != nil {
		return Usage{}
	}
	io, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return Usage{}
	}
	return Usage{
		CPUSeconds:   float64(ru.Utime.Nano()+ru.Stime.Nano()) / 1e9,
		WrittenBytes: field(io, "write_bytes:") - field(io, "cancelled_write_bytes:"),
		ReadBytes:    field(io, "read_bytes:"),
		Known:        true,
	}
}

// ProcessMemory returns the memory of this process.
func ProcessMemory() Memory {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return Memory{}
	}
	return Memory{
		AnonymousBytes: field(status, "RssAnon:") << 10,
		FileBytes:      field(status, "RssFile:") << 10,
		PeakBytes:      field(status, "VmHWM:") << 10,
		Known:          true,
	}
}

// field returns the number after a name at the start of a line, or 0 if the name
// or the number is absent.
func field(text []byte, name string) int64 {
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok {
			continue
		}
		words := bytes.Fields(rest)
		if len(words) == 0 {
			return 0
		}
		n, err := strconv.ParseInt(string(words[0]), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return 0
}
