package tree

import (
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
)

// loadTree makes a tree of tables whose pages cannot be fetched after stop is called.
// Everything that a later read finds was loaded before.
func loadTree(t *testing.T) (x *testTree, files *Files, stop func()) {
	x = randomTree(t, rand.New(rand.NewPCG(11, 12)), 400)
	faults := faultfs.New(x.fs)
	x.fs = faults
	files = New(x.options())
	t.Cleanup(func() { must(t, files.Close()) })
	return x, files, func() { faults.Add(faultfs.Rule{Op: vfs.OpPopulate, Forever: true}) }
}

func never() bool { return false }

func (x *testTree) tables() (all []*manifest.Table) {
	for _, level := range x.version.Levels {
		all = append(all, level...)
	}
	return all
}

// readable returns the number of readable versions in the tree.
func (x *testTree) readable(files *Files) (n int) {
	v := files.View(&x.version, nil)
	for _, e := range x.entries {
		if _, _, seq, ok, err := v.Get(e.Key, base.Hash(e.Key, testSeed), e.Seq, nil); err == nil && ok && seq == e.Seq {
			n++
		}
	}
	return n
}

func TestLoad_LaterReadsFetchNothing(t *testing.T) {
	t.Parallel()
	x, files, stop := loadTree(t)
	files.Load(x.tables(), nil, 1<<30, never)
	stop()
	if n := x.readable(files); n != len(x.entries) {
		t.Fatalf("%d of %d versions could be read", n, len(x.entries))
	}
}

// The references of all tables to value files may take gigabytes. The manifest has them, too.
func TestFiles_SharedReadersOfTablesKeepNoReferencesToValueFiles(t *testing.T) {
	t.Parallel()
	x := newTestTree(t)
	var pointers []base.Entry
	for i := range 10 {
		pointers = append(pointers, base.Entry{Key: testKey(i), Seq: 1, Meta: base.Meta{Kind: base.KindPointer}})
	}
	x.add(t, 6, 0, pointers)
	m := x.tables()[0]
	files := New(x.options())
	defer func() { must(t, files.Close()) }()
	files.mu.Lock()
	shared := files.table(m)
	files.mu.Unlock()
	r, err := files.reader(shared)
	must(t, err)
	own, err := files.Open(m)
	must(t, err)
	defer func() { must(t, own.Close()) }()
	if n, want := len(r.Properties().ValueFiles), len(own.Properties().ValueFiles); n > 0 || want != 3 {
		t.Errorf("%d references of a shared reader, %d of another one, want 0 and 3", n, want)
	}
}

func TestLoad_KeepsToItsLimit(t *testing.T) {
	t.Parallel()
	x, files, stop := loadTree(t)
	all := x.tables()
	files.Load(all, nil, all[0].Size+all[1].Size, never)
	stop()
	if held := files.residentBytes(nil); held == 0 || held > all[0].Size+all[1].Size {
		t.Fatalf("%d bytes are in memory, want at most those of two tables", held)
	}
	for i, m := range all {
		if opened := files.tables[m.Num] != nil; opened != (i < 2) {
			t.Fatalf("table %d of %d is open: %t", i, len(all), opened)
		}
	}
	if n := x.readable(files); n == len(x.entries) {
		t.Fatal("all versions could be read without fetching")
	}
}

func TestLoad_StopsBetweenTwoTables(t *testing.T) {
	t.Parallel()
	x, files, _ := loadTree(t)
	all := x.tables()
	asked := 0 // before each of these small tables, and once within it
	files.Load(all, nil, 1<<30, func() bool { asked++; return asked > 4 })
	if n := len(files.Residents(nil)); n != 2 {
		t.Errorf("%d of %d tables were loaded, want 2", n, len(all))
	}
}

func TestLoad_DroppedTablesMakeRoom(t *testing.T) {
	t.Parallel()
	x, files, _ := loadTree(t)
	all := x.tables()
	old, fresh := all[0], all[len(all)-1:]
	files.Load([]*manifest.Table{old}, nil, old.Size, never)
	limit := max(old.Size, fresh[0].Size)
	files.Load(fresh, nil, limit, never)
	if files.tables[fresh[0].Num] != nil {
		t.Fatal("two tables were loaded into the room of one")
	}
	files.Load(fresh, []manifest.Place{{Num: old.Num}}, limit, never)
	if files.tables[fresh[0].Num] == nil {
		t.Fatal("a table that takes the place of another one was not loaded")
	}
}

func TestLoad_ReadReportsDamage(t *testing.T) {
	t.Parallel()
	x, files, _ := loadTree(t)
	all := x.tables()
	name := x.fs.Join(x.dir, base.TableName(all[0].Num))
	f, err := x.fs.OpenReadWrite(name, vfs.CatTable)
	must(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], 0)
	must(t, err)
	b[0] ^= 0xff
	_, err = f.WriteAt(b[:], 0)
	must(t, err)
	must(t, f.Close())

	files.Load(all, nil, 1<<30, never)
	v := files.View(&x.version, nil)
	damaged := 0
	for _, e := range x.entries {
		_, _, _, _, err := v.Get(e.Key, base.Hash(e.Key, testSeed), e.Seq, nil)
		if isCorrupt(err) {
			damaged++
		}
	}
	if damaged == 0 {
		t.Fatal("the damage was not reported")
	}
}
