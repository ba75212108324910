package faultfs

import "github.com/stoatdb/stoat/internal/testing/vfstest"

var (
	must         = vfstest.Must
	wantIs       = vfstest.WantIs
	create       = vfstest.Create
	write        = vfstest.Write
	closeFile    = vfstest.Close
	contents     = vfstest.Contents
	fileContents = vfstest.FileContents
	wantContents = vfstest.WantContents
	populateOf   = vfstest.PopulateOf
	testRand     = vfstest.Rand
)

// The units in which a memfs.FS keeps data through a power cut and through a sync
// that failed, in bytes.
const (
	sectorSize = 512
	pageSize   = 4096
)
