package stoat

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/residency"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/vfs"
)

const (
	// governEvery is how long a round of the governor is.
	governEvery = time.Second
	// restMin is for how many rounds nobody must have used a file for its
	// memory to be given back when the budget is passed.
	restMin = 10
	// machineSpare is the share of the machine's memory, or of what its control
	// group allows, below which memory is short.
	machineSpare = 1.0 / 8
	// pagesShare is the share of the budget that mapped pages may have in any
	// case, however much memtables take.
	pagesShare = 1.0 / 4
	// decodedShare is what decoded blocks may take of the budget, one of so many
	// parts.
	decodedShare = 8
)

// A governor keeps the pages of mapped files to what Options.MemoryBudget
// leaves for them: see package residency for the rules. It works in rounds,
// and only while somebody reads: the first use of a file in a round wakes it.
type governor struct {
	worker

	mu        sync.Mutex // held during a round
	last      time.Time  // of the round before
	residents []tree.Resident
	files     []residency.File
	gaveBack  atomic.Int64 // bytes, since Open; Stats does not wait for a round
}

// startGovernor starts the goroutine of the governor, which Close ends with
// the other background work.
func (d *DB) startGovernor() {
	if d.driver == nil {
		d.background.run(&d.governor.worker, 0, d.governStep)
	}
}

// governStep is a round, if the last one is long enough ago. It asks to be
// called again as long as there is something that may have to be given back
// later, though nobody reads.
func (d *DB) governStep() (again time.Duration, err error) {
	g := &d.governor
	g.mu.Lock()
	defer g.mu.Unlock()
	if left := governEvery - time.Since(g.last); left > 0 {
		return left, nil
	}
	g.last = time.Now()
	more, err := d.governRound(d.memoryShort())
	if more {
		again = governEvery
	}
	if err != nil {
		d.emit(Warning{What: "memory of a file could not be given back", Err: err})
	}
	return again, nil
}

// memoryShort reports whether the machine has little memory left. Pages of
// files count as left: the kernel drops them when it needs to. A system that
// does not tell is taken to have enough, as it drops pages, too.
func (d *DB) memoryShort() bool {
	m, err := vfs.ReadMachineMemory()
	return err == nil && shortOf(m)
}

func shortOf(m vfs.MachineMemory) bool {
	return float64(m.Available) < machineSpare*float64(m.Total)
}

// governRound ends a round. It reports whether another one has something to
// do even if nobody reads until then: when the budget is passed by files that
// are not idle yet. The caller holds the governor's mu.
func (d *DB) governRound(strict bool) (more bool, err error) {
	g := &d.governor
	g.residents, g.files = d.tables.Residents(g.residents[:0]), g.files[:0]
	left, heap := int64(0), d.view.Load().tree.FilterBytes()
	for i := range g.residents {
		r := &g.residents[i]
		f := residency.File{Kind: r.Kind()}
		if gauge := r.Gauge(); gauge != nil {
			f.Bytes, f.Rest = gauge.Bytes(), gauge.Turn()
		}
		g.files = append(g.files, f)
		left += f.Bytes
		heap += r.HeapBytes()
	}
	limit := residency.Limit{Bytes: d.pagesBudget(heap + d.decoded.Stats().Bytes), RestMin: restMin, Strict: strict}
	var errs []error
	for _, i := range residency.Choose(g.files, limit) {
		errs = append(errs, g.residents[i].GiveBack())
		g.gaveBack.Add(g.files[i].Bytes)
		left -= g.files[i].Bytes
	}
	clear(g.residents) // a file that is closed is not kept by this
	return left > limit.Bytes, errors.Join(errs...)
}

// pagesBudget is what the budget leaves for mapped pages, given how much the
// readers of files take besides.
func (d *DB) pagesBudget(readers int64) int64 {
	b := d.opts.MemoryBudget
	return max(int64(pagesShare*float64(b)), b-d.memtableBytes()-d.garbage.memtableBytes.Load()-d.memory.idle()-readers)
}

// readersBytes is about what the readers of files take beside mapped pages.
func (d *DB) readersBytes() int64 {
	heap := d.view.Load().tree.FilterBytes()
	for _, r := range d.tables.Residents(nil) {
		heap += r.HeapBytes()
	}
	return heap + d.decoded.Stats().Bytes
}

// memtableBytes returns the memory of the memtables of the view.
func (d *DB) memtableBytes() int64 {
	slot, err := d.acquire()
	if err != nil {
		return 0 // closed: it is gone or going
	}
	defer d.release(slot)
	return bytesOf(d.pin(slot).tables)
}

// MemoryStats say where memory goes.
type MemoryStats struct {
	// Budget is Options.MemoryBudget.
	Budget int64
	// Memtables is what the memtables hold: outside the Go heap, but for range
	// deletions.
	Memtables int64
	// FlushedMemtables is what memtables hold that have been flushed and that
	// transactions still read.
	FlushedMemtables int64
	// Prepared is what else was taken for writes outside the Go heap: what
	// memtables have not filled yet, what is kept for the next of them, and the
	// writes of large transactions until they are committed.
	Prepared int64
	// OffHeap is all that was taken outside the Go heap, by all databases of
	// the process: memtables, those that readers still hold, the writes of
	// large transactions, what is kept of those for the next ones, and decoded
	// blocks.
	OffHeap int64
	// FileHeap is about what the open tables and value files take of the Go
	// heap: what of them has been verified, bounds, filters, range deletions.
	FileHeap int64
	// Decoded is what decoded blocks of compressed tables take outside the Go
	// heap, an eighth of the budget at most. DecodedHits and DecodedMisses count
	// reads that found a block there, and that did not, since Open.
	Decoded                    int64
	DecodedHits, DecodedMisses uint64
	// TablePages and ValuePages are about how much of the mapped files is in
	// memory: what has been read since it was last given back. The kernel may
	// have taken some of it, and takes more when others need it.
	TablePages, ValuePages int64
	// OpenTables and OpenValues count the files that are mapped.
	OpenTables, OpenValues int
	// GivenBack is how many bytes of mapped pages have been given back since
	// Open.
	GivenBack int64
}

// Total returns what is held beside mapped pages, and with them.
func (m MemoryStats) Total() (own, all int64) {
	own = m.Memtables + m.FlushedMemtables + m.Prepared + m.FileHeap + m.Decoded
	return own, own + m.TablePages + m.ValuePages
}

// memoryStats returns where memory goes. The caller holds a slot of a reader.
func (d *DB) memoryStats(memtables int64) MemoryStats {
	m := MemoryStats{Budget: d.opts.MemoryBudget, Memtables: memtables, OffHeap: vfs.AllocatedBytes()}
	m.FileHeap = d.view.Load().tree.FilterBytes()
	for _, r := range d.tables.Residents(nil) {
		gauge := r.Gauge()
		if gauge == nil {
			continue
		}
		m.FileHeap += r.HeapBytes()
		if r.Kind() == residency.Tables {
			m.OpenTables++
			m.TablePages += gauge.Bytes()
		} else {
			m.OpenValues++
			m.ValuePages += gauge.Bytes()
		}
	}
	m.FlushedMemtables = d.garbage.memtableBytes.Load()
	m.Prepared = max(0, d.memory.system.out.Load()-m.Memtables-m.FlushedMemtables)
	decoded := d.decoded.Stats()
	m.Decoded, m.DecodedHits, m.DecodedMisses = decoded.Bytes, decoded.Hits, decoded.Misses
	m.GivenBack = d.governor.gaveBack.Load()
	return m
}
