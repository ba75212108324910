package comparison

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

// A Machine describes the machine of a run for the report.
type Machine struct {
	System     string `json:"system"` // operating system, architecture, kernel
	Processor  string `json:"processor"`
	Processors int    `json:"processors"`
	Memory     string `json:"memory"`
	FileSystem string `json:"file_system"`
	ReadAhead  string `json:"read_ahead,omitempty"` // of the device, in KiB; empty if not known
	Go         string `json:"go"`
	Revision   string `json:"revision"` // of the source tree of this program
}

// WithoutRevision returns the machine without its revision of stoat.
func (m Machine) WithoutRevision() Machine {
	m.Revision = ""
	return m
}

// ThisMachine describes this machine, with the file system of dir. A field that
// the system does not report is empty.
func ThisMachine(dir string) Machine {
	m := Machine{
		System:     runtime.GOOS + "/" + runtime.GOARCH,
		Processors: runtime.NumCPU(),
		Go:         runtime.Version(),
		Processor:  procField("/proc/cpuinfo", "model name"),
		Memory:     procField("/proc/meminfo", "MemTotal"),
		FileSystem: fileSystem(dir),
		ReadAhead:  readAhead(dir),
		Revision:   revision(),
	}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System += " " + strings.TrimSpace(string(kernel))
	}
	return m
}

// procField returns the text after the first "name:" of a file.
func procField(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for l := range bytes.Lines(text) {
		key, value, ok := strings.Cut(string(l), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// fileSystem returns the type and device of the mount that holds dir.
func fileSystem(dir string) string {
	text, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return ""
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return ""
	}
	var found, kind string
	for l := range bytes.Lines(text) {
		f := strings.Fields(string(l))
		if len(f) < 3 || len(f[1]) < len(found) || !within(dir, f[1]) {
			continue
		}
		found, kind = f[1], f[2]+" on "+f[0]
	}
	return kind
}

// readAhead returns the read-ahead in KiB of the device that holds dir. The
// system reads that much around a page fault of a mapping, unless the store
// advises otherwise.
func readAhead(dir string) string {
	_, device, _ := strings.Cut(fileSystem(dir), " on /dev/")
	if device == "" {
		return ""
	}
	// A partition has no queue of its own; its link leads into the disk.
	for _, path := range []string{"/sys/class/block/" + device + "/queue", "/sys/class/block/" + device + "/../queue"} {
		if text, err := os.ReadFile(path + "/read_ahead_kb"); err == nil {
			return strings.TrimSpace(string(text))
		}
	}
	return ""
}

func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// changedSuffix ends the revision of a tree with uncommitted changes.
const changedSuffix = " with changes"

// commitOf returns the commit of a revision without changedSuffix. A program
// built without the Makefile counts the results of its own run as changes, and
// must still be able to resume that run.
func commitOf(revision string) string { return strings.TrimSuffix(revision, changedSuffix) }

// treeRevision is the revision that the Makefile sets. It does not count the
// results of runs as changes. It is empty in a program built without the
// Makefile.
var treeRevision string

func revision() string {
	if treeRevision != "" {
		return treeRevision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var id, changed string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			id = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = changedSuffix
		}
	}
	return id + changed
}
