package commit

import (
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
)

const (
	// heldMax and heldPart bound the bytes in value files of commits to which one
	// memtable may refer: to heldMax full memtables. While values are replaced, the bound
	// is all values divided by heldPart, and at least half a memtable. Only a flush shows
	// that the replaced values are garbage.
	heldMax  = 4
	heldPart = 32
)

// heldFull reports whether a memtable that refers to held bytes of value files
// is to be flushed.
func (c *Committer) heldFull(held int64) bool {
	return heldFullOf(held, c.o.MemtableSize, c.throttle.Replacing(), c.store.View().Tree.Version.ValueFileBytes)
}

// heldFullOf is heldFull, given the part of values that replace others and the bytes of
// all value files.
func heldFullOf(held, memtableSize int64, replacing float64, all uint64) bool {
	if held > heldMax*memtableSize {
		return true
	}
	replaced := replacing * float64(held)
	return replaced > float64(memtableSize/2) && replaced > float64(all/heldPart)
}

// Held is the value files that commits have written, until the tables tell what is live
// in them.
//
// Such a file is whole, sealed and known to the manifest before the log gets the
// pointers into it. So a pointer never leads to what a crash has taken, and a file
// whose commit failed is garbage like any other.
type Held struct {
	mu lock.Mutex[lock.Held]
	// files maps a value file to the version of the newest commit that refers to it, or to
	// 0 while that commit is under way. A file stays in the map as long as it exists. One
	// job may look at the state before a flush while another looks at the state after it.
	// Guarded by mu.
	files map[base.FileNum]base.SeqNum
	// kept is the version from which on the log keeps commits for feeds, with their
	// files. 0 means that it keeps none.
	kept atomic.Uint64
}

// keepFrom makes the files of commits from seq on stay for feeds.
func (h *Held) keepFrom(seq base.SeqNum) { h.kept.Store(uint64(seq)) }

// keptFrom returns the version from which on the files of commits stay for feeds.
func (h *Held) keptFrom() base.SeqNum {
	if kept := base.SeqNum(h.kept.Load()); kept > 0 && !mutant.On(mutant.FeedLoseValues) {
		return kept
	}
	return base.SeqNumMax
}

// Kept reports whether a value file stays for feeds.
func (h *Held) Kept(n base.FileNum) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	seq, ok := h.files[n]
	return ok && seq >= h.keptFrom()
}

// hold notes that a transaction refers to a file. It reports whether the file is new here.
func (h *Held) hold(n base.FileNum, seq base.SeqNum) (fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.files == nil {
		h.files = map[base.FileNum]base.SeqNum{}
	}
	before, known := h.files[n]
	h.files[n] = max(before, seq)
	return !known
}

// Forget lets go of files whose transaction has failed, or that were dropped.
func (h *Held) Forget(files ...base.FileNum) {
	if len(files) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range files {
		delete(h.files, n)
	}
}

// Holds reports whether memtables, commits under way or feeds may refer to a value file.
// Everything up to flushed is in tables.
func (h *Held) Holds(v *manifest.ValueFile, flushed base.SeqNum) bool {
	return (v.LastSeq > flushed || h.holds(v.Num, flushed)) && !mutant.On(mutant.CollectHeld)
}

// holds reports whether memtables, a transaction under way, or commits that are kept
// for feeds refer to a file.
func (h *Held) holds(n base.FileNum, flushed base.SeqNum) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	seq, ok := h.files[n]
	return ok && (seq == 0 || seq > flushed || seq >= h.keptFrom())
}

// HeldByActive returns how many bytes of value files the active memtable refers to
// that commits have written.
func (c *Committer) HeldByActive() int64 { return c.heldByActive.Load() }
