//go:build !unix

package measure

import "os"

// allocated returns the length of a file; this system does not report its blocks.
func allocated(info os.FileInfo) int64 { return info.Size() }
