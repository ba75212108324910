package filebackup

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/vfs"
)

// A list says which files a backup has. It is text:
//
//	stoat file backup 1
//	id 20261123T201500.123456789Z-0123456789abcdef
//	file 000012.table 81920 SHA256 MARK
//	…
//	end 1 81920
//	checksum SHA256
//
// Files ascend by name. MARK is that of a table or a value file, or a hyphen. The line end
// has the number of files and the sum of their sizes, and the checksum is the SHA-256 of
// all lines before it.
type list struct {
	id    string
	files []file
}

// A file is one file of a backup.
type file struct {
	name string // in the directory of the database
	size int64  // in bytes
	sum  sum    // of the content
	mark string // recognises the content without reading all of it; empty if nothing does
}

// A sum is a SHA-256.
type sum [sha256.Size]byte

func (s sum) String() string { return hex.EncodeToString(s[:]) }

// object returns the name of the object that has the file.
func (f *file) object() string { return filesDir + f.sum.String() }

const (
	listHead   = "stoat file backup "
	listFormat = 1
	// listMax is the largest length of a list in bytes. A list of filesMax files is shorter.
	listMax = 256 << 20
	// filesMax is how many files a list has at most.
	filesMax = 1 << 20
	// otherLines is how many lines name no file: the head, the ID, the sum and the checksum.
	otherLines = 4
	// lineMax is the largest length of a line in bytes, with its end.
	lineMax = 256
	// markSize is the length of a mark in bytes.
	markSize = 16

	idTime   = "20060102T150405.000000000Z"
	idRandom = 16 // hexadecimal digits
)

// newID returns the ID of a backup. IDs ascend with the time.
func newID(at time.Time, random uint64) string {
	return fmt.Sprintf("%s-%016x", at.UTC().Format(idTime), random)
}

// parseID returns the time in an ID, and whether newID returns such an ID.
func parseID(id string) (at time.Time, ok bool) {
	if len(id) != len(idTime)+1+idRandom {
		return at, false
	}
	at, err := time.Parse(idTime, id[:len(idTime)])
	random, errRandom := strconv.ParseUint(id[len(idTime)+1:], 16, 64)
	return at, err == nil && errRandom == nil && newID(at, random) == id
}

// category returns the category of a file of a database by its name, and whether a
// checkpoint makes files of such a name.
func category(name string) (cat vfs.Category, ok bool) {
	if _, ok := base.ParseTableName(name); ok {
		return vfs.CatTable, true
	}
	if _, ok := base.ParseValueName(name); ok {
		return vfs.CatValue, true
	}
	if _, ok := manifest.ParseFileName(name); ok {
		return vfs.CatManifest, true
	}
	return vfs.CatKeys, name == seal.KeysName
}

// bytes returns the sum of the sizes.
func (l *list) bytes() (n int64) {
	for i := range l.files {
		n += l.files[i].size
	}
	return n
}

// info describes the backup.
func (l *list) info() Info {
	at, _ := parseID(l.id)
	return Info{ID: l.id, Time: at, Files: len(l.files), Bytes: l.bytes()}
}

// encode returns the text of the list. It sorts the files.
func (l *list) encode() []byte {
	slices.SortFunc(l.files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	b := fmt.Appendf(nil, "%s%d\nid %s\n", listHead, listFormat, l.id)
	for _, f := range l.files {
		b = fmt.Appendf(b, "file %s %d %v %s\n", f.name, f.size, f.sum, cmp.Or(f.mark, "-"))
	}
	b = fmt.Appendf(b, "end %d %d\n", len(l.files), l.bytes())
	return fmt.Appendf(b, "checksum %v\n", sum(sha256.Sum256(b)))
}

// decodeList is the inverse of encode.
func decodeList(b []byte) (*list, error) {
	head, _, _ := bytes.Cut(b, []byte("\n"))
	version, isList := bytes.CutPrefix(head, []byte(listHead))
	if n, err := strconv.ParseUint(string(version), 10, 32); isList && err == nil && n > listFormat {
		return nil, fmt.Errorf("%w: format %d of file backups", base.ErrVersion, n)
	}
	at := bytes.LastIndexByte(bytes.TrimSuffix(b, []byte("\n")), '\n') + 1
	if last, want := string(b[at:]), fmt.Sprintf("checksum %v\n", sum(sha256.Sum256(b[:at]))); last != want {
		return nil, base.Corrupt(int64(at), "last line of a list of files", strconv.Quote(cut(last)), strconv.Quote(want))
	}
	if n := bytes.Count(b, []byte("\n")); n > filesMax+otherLines {
		return nil, base.Corrupt(-1, "lines of a list of files", n, fmt.Sprintf("at most %d", filesMax+otherLines))
	}
	l, number := &list{}, 0
	for raw := range bytes.Lines(b[:at]) {
		number++
		if len(raw) > lineMax {
			return nil, base.Corrupt(-1, "length of a line of a list of files", len(raw), fmt.Sprintf("at most %d (line %d)", lineMax, number))
		}
		line := string(bytes.TrimSuffix(raw, []byte("\n")))
		if err := l.take(strings.Split(line, " ")); err != nil {
			return nil, base.Corrupt(-1, "line of a list of files", strconv.Quote(cut(line)), fmt.Sprintf("%v (line %d)", err, number))
		}
	}
	if got := l.encode(); !bytes.Equal(got, b) {
		return nil, base.Corrupt(-1, "list of files", "other lines than its files have", "")
	}
	return l, l.check()
}

// cut returns the beginning of a text, for an error.
func cut(s string) string { return s[:min(len(s), 100)] }

// take takes a line of a list. Lines that follow from the others are not looked at:
// decodeList compares them. The error says what the line should be.
func (l *list) take(words []string) error {
	switch words[0] {
	case "id":
		if len(words) != 2 {
			return fmt.Errorf("an ID")
		}
		l.id = words[1]
	case "file":
		if len(words) != 5 {
			return fmt.Errorf("name, size, SHA-256 and mark")
		}
		f := file{name: words[1]}
		size, err := strconv.ParseUint(words[2], 10, 62)
		s, errSum := hex.DecodeString(words[3])
		if err != nil || errSum != nil || len(s) != len(f.sum) {
			return fmt.Errorf("a size and a SHA-256")
		}
		f.size, f.sum = int64(size), sum(s)
		if words[4] != "-" {
			f.mark = words[4]
			if m, err := hex.DecodeString(f.mark); err != nil || len(m) != markSize || hex.EncodeToString(m) != f.mark {
				return fmt.Errorf("a mark")
			}
		}
		l.files = append(l.files, f)
	}
	return nil
}

// check checks that a database may consist of the files.
func (l *list) check() error {
	if _, ok := parseID(l.id); !ok {
		return base.Corrupt(-1, "ID of a list of files", strconv.Quote(cut(l.id)), "")
	}
	if n := len(l.files); n > filesMax {
		return base.Invalid("a backup of %d files, want at most %d", n, filesMax)
	}
	manifests := 0
	for i, f := range l.files {
		cat, ok := category(f.name)
		if !ok {
			return base.Corrupt(-1, "name of a file", strconv.Quote(cut(f.name)), "that of a file of a database")
		}
		if marked := cat == vfs.CatTable || cat == vfs.CatValue; marked != (f.mark != "") {
			return base.Corrupt(-1, "mark of a file", strconv.Quote(f.name+" "+f.mark), "one of a table or a value file, and of no other")
		}
		if cat == vfs.CatManifest {
			manifests++
		}
		if i > 0 && l.files[i-1].name == f.name {
			return base.Corrupt(-1, "list of files", f.name+" twice", "")
		}
	}
	if manifests != 1 {
		return base.Corrupt(-1, "manifests in a list of files", manifests, 1)
	}
	return nil
}
