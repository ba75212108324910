package governor

import (
	"errors"

	"github.com/stoatdb/stoat/internal/residency"
	"github.com/stoatdb/stoat/internal/tree"
)

// Decrypted pages are memory of the process, which the system cannot reclaim, and which
// callers borrow. So files in use give their pages back, too: the governor retires their
// readers, and later reads decrypt the pages again. When the pages reach the limit in
// spite of that, readers keep no more of them; see seal.Memory.
const (
	// fullShare is the part of the limit from which files give pages back.
	fullShare = 7.0 / 8
	// keepShare is the part of the limit that the pages of files then keep.
	keepShare = 3.0 / 4
)

// roundSealedLocked does a round of an encrypted database. The caller holds mu.
func (g *Governor) roundSealedLocked() (more bool, err error) {
	var errs []error
	g.residents, g.files = g.store.Files().Residents(g.residents[:0]), g.files[:0]
	limit := g.store.PagesBudget(g.store.ReaderBytes(g.residents))
	g.memory.SetLimit(limit)
	// The pages of retired readers are as good as given back.
	left := g.memory.Used() - g.store.RetiredBytes()
	others := left
	for i := range g.residents {
		r := &g.residents[i]
		f := residency.File{Kind: r.Kind(), Bytes: r.PageBytes()}
		if gauge := r.Gauge(); gauge != nil {
			f.IdleRounds = gauge.NextRound()
		}
		errs = append(errs, r.Trim())
		others -= f.Bytes
		g.files = append(g.files, f)
	}
	var chosen []tree.Resident
	for _, i := range chooseSealed(g.files, left, others, limit) {
		chosen = append(chosen, g.residents[i])
		left -= g.files[i].Bytes
	}
	g.gaveBack.Add(g.store.Retire(chosen))
	g.forgetSomeLocked()
	g.closeSomeLocked()
	clear(g.residents) // a file that is closed is not kept by this
	return full(left, limit), errors.Join(errs...)
}

// full reports whether that many bytes of pages are too many.
func full(pages, limit int64) bool { return float64(pages) > fullShare*float64(limit) }

// chooseSealed returns the indexes of the files to retire. pages is the size of all pages
// in bytes, and others the size of those that belong to no file in the list.
func chooseSealed(files []residency.File, pages, others, limit int64) []int {
	if !full(pages, limit) {
		return nil
	}
	return residency.Choose(files, residency.Limit{Bytes: int64(keepShare*float64(limit)) - others, Strict: true})
}
