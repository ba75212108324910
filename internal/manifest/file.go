package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/vfs"
)

const (
	filePrefix = "MANIFEST-"
	tempSuffix = ".tmp"
)

// ErrMissing says that a directory holds files of a database but no manifest.
// Errors that wrap it also wrap base.ErrCorrupt.
var ErrMissing = errors.New("stoat: manifest missing")

// FileName returns the base name of the manifest with the given number.
func FileName(number uint64) string { return fmt.Sprintf("%s%06d", filePrefix, number) }

// ParseFileName is the inverse of FileName. It reports false for any name
// that FileName does not return.
func ParseFileName(name string) (number uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, filePrefix)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 63)
	return number, err == nil && FileName(number) == name
}

// IsFileOfNew reports whether a restore, a checkpoint or a salvage may leave a file of this
// name in the directory of an unfinished database.
func IsFileOfNew(name string) bool {
	name = strings.TrimSuffix(name, tempSuffix)
	_, isTable := base.ParseTableName(name)
	_, isValues := base.ParseValueName(name)
	_, isManifest := ParseFileName(name)
	return isTable || isValues || isManifest || name == seal.KeysName
}

// isTemp reports whether name is the name of an unfinished manifest.
func isTemp(name string) bool {
	final, ok := strings.CutSuffix(name, tempSuffix)
	if !ok {
		return false
	}
	_, ok = ParseFileName(final)
	return ok
}

// isData reports whether name looks like a numbered file of a database of any
// kind: digits, a dot, letters.
func isData(name string) bool {
	number, kind, ok := strings.Cut(name, ".")
	if !ok || number == "" || kind == "" {
		return false
	}
	_, err := strconv.ParseUint(number, 10, 64)
	return err == nil && len(number) >= 6
}

// A listing is the part of a directory that concerns the manifest.
type listing struct {
	manifests []uint64 // ascending
	temps     []string
	data      string // the name of some numbered file, or empty
}

// listTries is how often list reads a directory that has data, but no manifest.
const listTries = 5

// list reads the directory. A missing directory counts as empty.
//
// Another process may replace the manifest meanwhile. The system reads a large directory in
// pieces: it may read the piece of the new name before the rename, and that of the old name
// after the removal. So list reads a directory with data, but without a manifest, again.
func list(fs vfs.FS, dir string) (l listing, err error) {
	for range listTries {
		l, err = listOnce(fs, dir)
		if err != nil || len(l.manifests) > 0 || l.data == "" {
			break
		}
	}
	return l, err
}

// listOnce is list for a directory that no other process changes.
func listOnce(fs vfs.FS, dir string) (listing, error) {
	var l listing
	names, err := fs.List(dir)
	if err != nil && !errors.Is(err, vfs.ErrNotExist) {
		return l, fmt.Errorf("manifest: list %s: %w", dir, err)
	}
	for _, name := range names {
		if number, ok := ParseFileName(name); ok {
			l.manifests = append(l.manifests, number)
			continue
		}
		switch {
		case isTemp(name):
			l.temps = append(l.temps, name)
		case isData(name):
			l.data = name
		}
	}
	slices.Sort(l.manifests)
	return l, nil
}

// newest returns the number of the newest manifest. There is one.
func (l listing) newest() uint64 { return l.manifests[len(l.manifests)-1] }

// missing returns the error for a directory without a manifest.
func (l listing) missing(dir string) error {
	if l.data == "" {
		return fmt.Errorf("manifest: none in %s: %w", dir, vfs.ErrNotExist)
	}
	return fmt.Errorf("%w: %w", ErrMissing, &base.CorruptionError{File: dir, Offset: -1,
		What: "directory", Got: l.data, Want: "a manifest too"})
}
