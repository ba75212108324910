package layers

import (
	"os"
	"testing"
	"testing/fstest"
)

func TestRoot_KeepsToItsSize(t *testing.T) {
	t.Parallel()
	lines, methods, err := CountRoot(os.DirFS(moduleRoot(t)))
	if err != nil {
		t.Fatal(err)
	}
	if lines > RootLines || methods > RootMethods {
		t.Errorf("the root has %d lines and %d methods of *DB, want at most %d and %d", lines, methods, RootLines, RootMethods)
	}
	if lines < RootLines-rootSpare {
		t.Errorf("the root has %d lines: lower RootLines", lines)
	}
}

func TestRoot_CountsNeitherTestsNorOtherMethods(t *testing.T) {
	t.Parallel()
	lines, methods, err := CountRoot(fstest.MapFS{
		"db.go":      {Data: []byte("package a\n\nfunc (d *DB) A() {}\nfunc (x *Txn) B() {}\n")},
		"db_test.go": {Data: []byte("package a\nfunc (d *DB) C() {}\n")},
		"sub/db.go":  {Data: []byte("package sub\nfunc (d *DB) D() {}\n")},
	})
	if lines != 4 || methods != 1 || err != nil {
		t.Errorf("%d lines, %d methods, %v; want 4, 1", lines, methods, err)
	}
}
