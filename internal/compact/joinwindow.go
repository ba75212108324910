package compact

import (
	"cmp"
	"slices"
	"sort"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// A smallFile is a small value file, and what the tables of a list refer to of it.
type smallFile struct {
	num base.FileNum
	// live is the number of bytes that all tables of the version refer to.
	live  uint64
	short bool
	// referred is the number of bytes that the tables of the list refer to. first and
	// last are the indexes of the first and the last of these tables.
	referred    uint64
	first, last int
}

// smallFiles are ordered by number.
type smallFiles []smallFile

// smallFiles returns the small files, without references.
func (p *picker) smallFiles(j *Joining) smallFiles {
	var files smallFiles
	for _, f := range p.v.Values {
		if p.small(j, f) {
			files = append(files, smallFile{num: f.Num, live: f.Live, short: short(f)})
		}
	}
	return files
}

// refer adds the references of t, the table with index at. If t is not in order, refer
// leaves out files of short values. It reports whether t refers to any other small file.
func (files smallFiles) refer(t *manifest.Table, at int) (some bool) {
	ordered, rest := inOrder(t), files
	for ref := range t.Values.All() {
		if rest = rest.from(ref.File); len(rest) == 0 {
			break
		}
		f := &rest[0]
		if f.num != ref.File || f.short && !ordered {
			continue
		}
		if f.referred == 0 {
			f.first = at
		}
		f.referred += ref.Bytes
		f.last, some = at, true
	}
	return some
}

// from returns the files from a number on. It is fast if few files come before them.
func (files smallFiles) from(num base.FileNum) smallFiles {
	end := 1
	for end <= len(files) && files[end-1].num < num {
		end *= 2
	}
	start := end / 2 // the files before it have smaller numbers
	near := files[start:min(end, len(files))]
	return files[start+sort.Search(len(near), func(i int) bool { return near[i].num >= num }):]
}

// A joinWindow is a few neighbouring tables of a level, the possible inputs of one plan. It
// slides over the level and keeps its sums up to date. So the search visits each reference
// of the level once, and not once for each window.
type joinWindow struct {
	tables []*manifest.Table
	// refers says which tables refer to small files.
	refers []bool
	// firsts and lasts are the files to which only tables of the level refer. firsts are
	// ordered by first, and lack those before the window. lasts are ordered by last, and
	// lack those before the end of the window.
	firsts, lasts []*smallFile
	// The window is tables[from:to], of size bytes.
	from, to int
	size     int64
	// whole is the number of bytes of the files to which only the window refers.
	whole uint64
}

// windowOver returns an empty window at the beginning of a level.
func windowOver(tables []*manifest.Table, files smallFiles) *joinWindow {
	w := &joinWindow{tables: tables, refers: make([]bool, len(tables))}
	for i := range files {
		files[i].referred = 0
	}
	for i, t := range tables {
		w.refers[i] = files.refer(t, i)
	}
	for i := range files {
		if f := &files[i]; f.referred == f.live {
			w.firsts = append(w.firsts, f)
		}
	}
	w.lasts = slices.Clone(w.firsts)
	slices.SortFunc(w.firsts, func(a, b *smallFile) int { return cmp.Compare(a.first, b.first) })
	slices.SortFunc(w.lasts, func(a, b *smallFile) int { return cmp.Compare(a.last, b.last) })
	return w
}

// grow extends the window while the next table refers to small files. It stops at the size
// of one plan: sizeMax bytes of tables or about wholeMax bytes of values.
func (w *joinWindow) grow(sizeMax int64, wholeMax uint64) {
	for ; w.to < len(w.tables) && w.refers[w.to] && w.whole < wholeMax; w.to++ {
		size := w.size + w.tables[w.to].Size
		if w.to > w.from && size > sizeMax {
			break
		}
		w.size = size
		for ; len(w.lasts) > 0 && w.lasts[0].last <= w.to; w.lasts = w.lasts[1:] {
			if w.lasts[0].first >= w.from {
				w.whole += w.lasts[0].live
			}
		}
	}
}

// begins reports whether the first table of the window refers to a file to which only the
// window refers. Otherwise the window is better without that table.
func (w *joinWindow) begins() bool {
	for _, f := range w.firsts {
		if f.first > w.from {
			break
		}
		if f.last < w.to {
			return true
		}
	}
	return false
}

// files returns the files to which only the window refers.
func (w *joinWindow) files() (files []*smallFile) {
	for _, f := range w.firsts {
		if f.first >= w.to {
			break
		}
		if f.last < w.to {
			files = append(files, f)
		}
	}
	return files
}

// shift removes the first table from the window. If the window is empty, it moves it behind
// the next table.
func (w *joinWindow) shift() {
	if w.from == w.to {
		w.from, w.to = w.from+1, w.to+1
		return
	}
	for ; len(w.firsts) > 0 && w.firsts[0].first == w.from; w.firsts = w.firsts[1:] {
		if w.firsts[0].last < w.to {
			w.whole -= w.firsts[0].live
		}
	}
	w.size -= w.tables[w.from].Size
	w.from++
}

// empty removes all tables from the window, which then begins behind them.
func (w *joinWindow) empty() {
	for len(w.firsts) > 0 && w.firsts[0].first < w.to {
		w.firsts = w.firsts[1:]
	}
	w.from, w.size, w.whole = w.to, 0, 0
}
