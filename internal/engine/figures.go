package engine

import (
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/residency"
	"github.com/stoatdb/stoat/vfs"
)

// Memory is the memory of a database by use, in bytes, as stoat.MemoryStats.
type Memory struct {
	Budget, Memtables, FlushedMemtables, Prepared, OffHeap, FileHeap, Decoded int64
	DecodedHits, DecodedMisses                                                uint64
	TablePages, ValuePages                                                    int64
	OpenTables, OpenValues                                                    int
	GivenBack                                                                 int64
}

// Memory returns the memory by use. memtables is the memory of the memtables. The
// caller holds a reader's slot.
func (e *Engine) Memory(memtables int64) Memory {
	m := Memory{Budget: e.o.MemoryBudget, Memtables: memtables, OffHeap: vfs.AllocatedBytes()}
	m.FileHeap = e.Store.View().Tree.HeapBytes()
	for _, r := range e.Store.Files().Residents(nil) {
		if r.Gauge() == nil {
			continue
		}
		m.FileHeap += r.HeapBytes()
		if r.Kind() == residency.Tables {
			m.OpenTables++
			m.TablePages += r.PageBytes()
		} else {
			m.OpenValues++
			m.ValuePages += r.PageBytes()
		}
	}
	m.FlushedMemtables = e.Store.ObsoleteMemtableBytes()
	m.Prepared = max(0, e.Store.Memory.Taken()-m.Memtables-m.FlushedMemtables)
	decoded := e.Decoded.Stats()
	m.Decoded, m.DecodedHits, m.DecodedMisses = decoded.Bytes, decoded.Hits, decoded.Misses
	m.GivenBack = e.Governor.GaveBack()
	return m
}

// Tree has figures of the tables and value files, as stoat.Stats.
type Tree struct {
	Tables                    int
	TableBytes, TableContent  int64
	Levels                    [manifest.Levels]Level
	Values                    int
	ValueBytes, ValueContent  int64
	ValueJumps, SnapshotBytes int64
}

// Level has figures of a level, as stoat.LevelStats.
type Level struct {
	Tables, Runs int
	Bytes        int64
}

// Tree returns the figures of v.
func (e *Engine) Tree(v *manifest.Version) (f Tree) {
	shape := compact.Shape{Versions: e.Settings.VersionsMax(), VersionsOf: func(n uint32) int { return e.Settings.Of(n).NumVersions }}
	for _, file := range v.Values {
		f.Values++
		f.ValueBytes += file.Size
		f.ValueContent += int64(file.ValueBytes)
	}
	for i, tables := range v.Levels {
		l := &f.Levels[i]
		l.Tables, l.Runs = len(tables), min(len(tables), 1)
		for j, t := range tables {
			l.Bytes += t.Size
			f.ValueJumps += int64(t.Jumps)
			f.TableContent += int64(t.KeyBytes + t.ValueBytes)
			if surplus := compact.Surplus(t, shape.VersionsIn(t)); surplus > 0 {
				part := float64(surplus) / float64(t.Entries)
				f.SnapshotBytes += int64(part * float64(uint64(t.Size)+t.Referred()))
			}
			if j > 0 && t.Run != tables[j-1].Run {
				l.Runs++
			}
		}
		f.Tables += l.Tables
		f.TableBytes += l.Bytes
	}
	return f
}
