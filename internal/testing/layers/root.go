package layers

import (
	"bytes"
	"io/fs"
	"strings"
)

const (
	// RootLines is the number of lines that the root package may have, without tests.
	// It never grows above 4,000.
	RootLines = 3900
	// RootMethods is the number of methods that *DB may have.
	RootMethods = 56
	// rootSpare is how many lines the root may have below RootLines before RootLines
	// must be lowered.
	rootSpare = 600
)

// CountRoot counts the lines of the root package without tests, and the methods of *DB.
func CountRoot(module fs.FS) (lines, methods int, err error) {
	names, err := fs.Glob(module, "*.go")
	if err != nil {
		return 0, 0, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := fs.ReadFile(module, name)
		if err != nil {
			return 0, 0, err
		}
		lines += bytes.Count(source, []byte("\n"))
		for line := range bytes.Lines(source) {
			if bytes.HasPrefix(line, []byte("func (")) && bytes.Contains(line, []byte(" *DB) ")) {
				methods++
			}
		}
	}
	return lines, methods, nil
}
