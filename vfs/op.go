package vfs

import "strconv"

// An OpKind names one method of FS, File or Mapping that reaches the system.
type OpKind uint8

// The operations. OpAny is no operation: in a fault rule it matches all.
const (
	OpAny OpKind = iota
	OpCreate
	OpOpen
	OpOpenReadWrite
	OpRename
	OpLink
	OpRemove
	OpList
	OpMkdir
	OpSyncDir
	OpStat
	OpLock
	OpLockShared
	OpLockDir
	OpFree
	OpRead
	OpWrite
	OpSize
	OpTruncate
	OpPreallocate
	OpSyncRange
	OpWaitRange
	OpSyncData
	OpSync
	OpMap
	OpWillNeed
	OpPopulate
	OpDontNeed
	OpUnmap
	OpClose
	opCount
)

var opNames = [opCount]string{
	"any", "create", "open", "open for writing", "rename", "link", "remove",
	"list", "mkdir", "sync directory", "stat", "lock", "lock to read",
	"lock directory", "free", "read", "write",
	"size", "truncate", "preallocate", "sync range", "wait for range", "sync data", "sync",
	"map", "will need", "populate", "do not need", "unmap", "close",
}

// String returns the name that error messages use.
func (k OpKind) String() string {
	if k < opCount {
		return opNames[k]
	}
	return "unknown operation"
}

// Mutates reports whether the operation changes what a crash could leave: the
// contents, the names, or what of them is durable.
func (k OpKind) Mutates() bool {
	switch k {
	case OpCreate, OpRename, OpLink, OpRemove, OpMkdir, OpSyncDir, OpLock,
		OpWrite, OpTruncate, OpPreallocate, OpSyncData, OpSync:
		return true
	}
	return false
}

// An Op is one call, as hooks and fault rules see it.
type Op struct {
	Kind     OpKind
	Category Category
	// Path is the file or directory; of Rename and Link the old name.
	Path string
	// NewPath is the new name of Rename and Link.
	NewPath string
	// Off and Len are the range of calls that have one. Truncate has its size
	// in Off.
	Off, Len int64
}

// String describes the call in a line.
func (o Op) String() string {
	s := o.Kind.String() + " " + o.Path
	switch o.Kind {
	case OpRename, OpLink:
		return s + " to " + o.NewPath
	case OpTruncate:
		return s + " to " + strconv.FormatInt(o.Off, 10)
	case OpRead, OpWrite, OpPreallocate, OpSyncRange, OpWaitRange, OpMap, OpWillNeed, OpPopulate, OpDontNeed:
		return s + " [" + strconv.FormatInt(o.Off, 10) + ", " + strconv.FormatInt(o.Off+o.Len, 10) + ")"
	}
	return s
}
