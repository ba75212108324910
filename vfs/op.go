package vfs

import "strconv"

// An OpKind is a method of FS, File or Mapping that accesses the file system.
type OpKind uint8

// The operations.
const (
	OpAny           OpKind = iota // no operation; in a fault rule, every operation
	OpCreate                      // FS.Create
	OpOpen                        // FS.Open
	OpOpenReadWrite               // FS.OpenReadWrite
	OpRename                      // FS.Rename
	OpLink                        // FS.Link
	OpRemove                      // FS.Remove
	OpList                        // FS.List
	OpMkdir                       // FS.MkdirAll
	OpSyncDir                     // FS.SyncDir
	OpStat                        // FS.Stat
	OpLock                        // FS.Lock
	OpLockShared                  // FS.LockShared
	OpLockDir                     // FS.LockDir
	OpFree                        // FS.Free
	OpRead                        // File.ReadAt
	OpWrite                       // File.WriteAt
	OpSize                        // File.Size
	OpTruncate                    // File.Truncate
	OpPreallocate                 // File.Preallocate
	OpSyncRange                   // File.SyncRange
	OpWaitRange                   // File.WaitRange
	OpSyncData                    // File.SyncData
	OpSync                        // File.Sync
	OpMap                         // File.Map
	OpWillNeed                    // Mapping.WillNeed
	OpPopulate                    // Mapping.Populate
	OpKeepUsed                    // Mapping.KeepUsed
	OpDontNeed                    // Mapping.DontNeed
	OpUnmap                       // Mapping.Close
	OpClose                       // File.Close
	opCount
)

var opNames = [opCount]string{
	"any", "create", "open", "open for writing", "rename", "link", "remove",
	"list", "mkdir", "sync directory", "stat", "lock", "lock shared",
	"lock directory", "free", "read", "write",
	"size", "truncate", "preallocate", "sync range", "wait for range", "sync data", "sync",
	"map", "will need", "populate", "keep used", "do not need", "unmap", "close",
}

// String returns the name of the operation in error messages.
func (k OpKind) String() string {
	if k < opCount {
		return opNames[k]
	}
	return "unknown operation"
}

// Mutates reports whether the operation changes contents or names, or makes them
// durable.
func (k OpKind) Mutates() bool {
	switch k {
	case OpCreate, OpRename, OpLink, OpRemove, OpMkdir, OpSyncDir, OpLock,
		OpWrite, OpTruncate, OpPreallocate, OpSyncData, OpSync:
		return true
	}
	return false
}

// An Op is one call of a method, as hooks and fault rules see it.
type Op struct {
	// Kind is the method.
	Kind OpKind
	// Category is the category of the file, if known.
	Category Category
	// Path is the file or directory. For Rename and Link it is the old name.
	Path string
	// NewPath is the new name of Rename and Link.
	NewPath string
	// Off and Len are the range of the call in bytes, if it has one. For Truncate,
	// Off is the new length.
	Off, Len int64
}

// String returns the operation, the path and the range, on one line.
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
