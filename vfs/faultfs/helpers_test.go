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

// The units in which memfs keeps or loses data, in bytes: a power cut affects sectors, a
// failed sync affects pages.
const (
	sectorSize = 512
	pageSize   = 4096
)
