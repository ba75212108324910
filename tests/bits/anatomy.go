package bits

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/payload"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
)

// An anatomy says which bytes of the files of an intact database hold which versions.
type anatomy struct {
	items []model.Item // what salvage copies of the intact database
	// blocks are the parts that hold a version: its block, or its record in the log, and
	// the record of its value.
	blocks map[string][]part
	// index are the parts that lead to a block: its entry in the directory, and its
	// checksums.
	index map[string][]part
	// roots are the footers of tables, the starts of directories and of checksums: without
	// two of them, a whole table is lost. Their keys are paths.
	footers, roots map[string][]part
}

func nameOf(key []byte, seq base.SeqNum) string { return fmt.Sprintf("%d %s", seq, key) }

// dissect makes the anatomy of a plain image. A sealed one has none.
func (img *Image) dissect(t *testing.T) *anatomy {
	t.Helper()
	if img.keys != nil {
		return nil
	}
	a := &anatomy{blocks: map[string][]part{}, index: map[string][]part{}, footers: map[string][]part{}, roots: map[string][]part{}}
	records := map[string]part{} // of values, by version
	state, err := manifest.LoadDamaged(img.disk, testkit.Dir, nil)
	testkit.Must(t, err)
	for _, path := range img.files {
		if name := img.disk.Base(path); strings.HasSuffix(name, ".values") {
			img.dissectValues(t, name, records)
		}
	}
	for _, tables := range state.Version.Levels {
		for _, m := range tables {
			img.dissectTable(t, a, m, records)
		}
	}
	for _, path := range img.files {
		if _, ok := log.ParseFileName(img.disk.Base(path)); ok {
			img.dissectLog(t, a, path, state.FlushedSeq, records)
		}
	}
	_, a.items, err = img.salvage(img.disk.Clone(), stoat.SalvageOptions{})
	testkit.Must(t, err)
	return a
}

func (img *Image) open(t *testing.T, name string) (string, vfs.File, int64) {
	t.Helper()
	path := img.disk.Join(testkit.Dir, name)
	f, err := img.disk.Open(path, vfs.CatNone)
	testkit.Must(t, err)
	size, err := f.Size()
	testkit.Must(t, err)
	return path, f, size
}

func (img *Image) dissectValues(t *testing.T, name string, records map[string]part) {
	t.Helper()
	path, f, size := img.open(t, name)
	d, err := values.OpenDamaged(f, size, name, nil)
	testkit.Must(t, err)
	testkit.Must(t, d.Records(func(r values.RecordInfo) error {
		if r.Err == nil {
			records[nameOf(r.Key, r.Seq)] = part{path, r.Offset, r.Offset + r.Length}
			records[nameOf(r.Key, 0)] = part{path, r.Offset, r.Offset + r.Length}
		}
		return r.Err
	}))
	testkit.Must(t, d.Close())
}

func (img *Image) dissectTable(t *testing.T, a *anatomy, m *manifest.Table, records map[string]part) {
	t.Helper()
	path, f, size := img.open(t, base.TableName(m.Num))
	d, err := table.OpenDamaged(f, size, path, nil)
	testkit.Must(t, err)
	for _, s := range d.Sections() {
		if s.Name == "footer" {
			a.footers[path] = []part{{path, s.Offset, s.Offset + s.Length}}
		}
	}
	for b := range d.Blocks() {
		info := d.Block(b)
		index := []part{{path, info.Entry, info.Entry + 32}, {path, info.Sums[0], info.Sums[0] + 8}, {path, info.Sums[1], info.Sums[1] + 8}}
		if b == 0 {
			a.roots[path] = append(index, part{path, info.KeyOffset, info.KeyOffset + info.KeyLength}, part{path, info.ValOffset, info.ValOffset + info.ValLength})
		}
		for i := range info.Entries {
			e := &info.Entries[i]
			name := nameOf(e.Key, e.Seq)
			a.index[name] = index
			blocks := []part{{path, info.KeyOffset, info.KeyOffset + info.KeyLength}}
			if len(e.Value) > 0 {
				blocks = append(blocks, part{path, info.ValOffset, info.ValOffset + info.ValLength})
			}
			a.blocks[name] = append(blocks, a.valueOf(e, records)...)
		}
	}
	testkit.Must(t, f.Close())
}

// valueOf returns the part that holds the value of an entry.
func (a *anatomy) valueOf(e *base.Entry, records map[string]part) []part {
	if e.Meta.Kind != base.KindPointer {
		return nil
	}
	p, err := values.DecodePointer(e.Value)
	if err != nil {
		return nil
	}
	if at, ok := records[nameOf(e.Key, p.Of(e.Seq))]; ok {
		return []part{at}
	}
	return []part{records[nameOf(e.Key, 0)]}
}

func (img *Image) dissectLog(t *testing.T, a *anatomy, path string, flushed base.SeqNum, records map[string]part) {
	t.Helper()
	_, f, size := img.open(t, img.disk.Base(path))
	headers, err := record.ReadHeaders(f, size, record.TypeLog)
	testkit.Must(t, err)
	for _, h := range headers {
		r := record.NewReader(f, size, h.Salt, nil)
		for {
			rec, err := r.NextRecord()
			if err == io.EOF {
				break
			}
			testkit.Must(t, err)
			if rec.Kind != record.Whole {
				continue
			}
			var seq base.SeqNum
			testkit.Must(t, payload.Decode(rec.Payload, func(h payload.Header) error {
				seq = h.Seq
				return nil
			}, func(key, value []byte, m base.Meta) error {
				if seq <= flushed {
					return nil
				}
				e := base.Entry{Key: key, Value: value, Seq: seq, Meta: m}
				name := nameOf(key, seq)
				a.blocks[name] = append(a.blocks[name], part{path, rec.Offset, rec.End})
				a.blocks[name] = append(a.blocks[name], a.valueOf(&e, records)...)
				return nil
			}))
		}
	}
	testkit.Must(t, f.Close())
}

// mayLose reports whether a damage may lose a version.
func (a *anatomy) mayLose(d *damage, name string) bool {
	meets := func(parts []part) bool {
		for _, p := range parts {
			for _, o := range d.parts {
				if p.meets(o) {
					return true
				}
			}
		}
		return false
	}
	if meets(a.blocks[name]) || len(a.blocks[name]) == 0 {
		return true
	}
	if !d.sector {
		return false // one wrong bit of an index is corrected
	}
	if meets(a.index[name]) {
		return true
	}
	for _, p := range a.index[name] {
		return meets(a.footers[p.file]) && meets(a.roots[p.file])
	}
	return false
}

// missing returns the first version that the damage must not lose and that is not among
// the items of the new database.
func (a *anatomy) missing(d *damage, items []model.Item) error {
	got := map[string]model.Item{}
	for _, item := range items {
		got[nameOf([]byte(item.Key), base.SeqNum(item.Seq))] = item
	}
	for _, want := range a.items {
		name := nameOf([]byte(want.Key), base.SeqNum(want.Seq))
		if item, ok := got[name]; (!ok || item != want) && !a.mayLose(d, name) {
			return fmt.Errorf("version %v is outside of the damage, and lost", want)
		}
	}
	return nil
}
