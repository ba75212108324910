package memfs

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
	clip         = vfstest.Clip
	reserve      = vfstest.Reserve
	testRand     = vfstest.Rand
	resized      = vfstest.Resized
)
