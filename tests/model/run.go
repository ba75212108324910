package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A Run is one life of one database beside its model. One goroutine drives it, so
// that the model knows the exact answer of every call. The background jobs of the
// database run all the same.
type Run struct {
	Opts  stoat.Options
	FS    *memfs.FS
	clock *testkit.Clock
	still bool // the clock never moves
	DB    *stoat.DB
	keys  keySpace
	tail  model.Tail
	large int // the size of values that are not small
	// settings are those that the database stores. They are nil before the first open.
	settings *stoat.Settings
	Work     Work

	// home names the keyspace of the run, if it is not the default keyspace. spaced
	// says that there are others beside it, and fillers is how many empty ones.
	home    string
	spaced  bool
	fillers int
	spaces  spaces

	Model *model.Map
	// known is the newest commit that was acknowledged, so that every new
	// snapshot must show it; durable the newest that no power cut may take.
	known, durable uint64

	txns   []*Pair
	asyncs []*asyncCommit
	values int

	// narrate receives a line for each operation when a failure is told.
	narrate func(format string, args ...any)
}

// A Pair is a transaction of the database and that of the model.
type Pair struct {
	name  int
	write bool
	Tx    stoat.Txn
	model *model.Txn
	iters []*iterPair
}

type iterPair struct {
	name  int
	it    stoat.Iterator
	model *model.Iterator
	o     stoat.IterOptions
}

// An asyncCommit is a commit that has been handed over.
type asyncCommit struct {
	seq      uint64
	conflict bool
	version  uint64 // set before done gets the outcome
	done     chan error
}

// Shape is what is random about a run beside its operations.
type Shape struct {
	Keys       keySpace
	Memtable   int64
	budget     int64 // Options.MemoryBudget, 0 for the default
	Durability stoat.Durability
	Still      bool
	versions   int // Options.NumVersions
	large      int // how large values that are not small become
	compress   stoat.Compression
	Encrypted  bool
	home       string
	Spaced     bool // there are keyspaces beside that of the run
	fillers    int
}

func randomShape(seed uint64) Shape {
	rng := rand.New(rand.NewPCG(seed, 0x5a4e))
	return Shape{
		Keys:       KeySpaces[rng.IntN(len(KeySpaces))],
		Memtable:   []int64{64 << 10, 64 << 10, 256 << 10, 64 << 20}[rng.IntN(4)],
		Durability: []stoat.Durability{stoat.Synced, stoat.Buffered}[rng.IntN(2)],
		Still:      rng.IntN(2) == 0,
		versions:   1 + rng.IntN(3),
		large:      []int{30, 300, 3000}[rng.IntN(3)],
		compress:   testkit.Compressions[rng.IntN(len(testkit.Compressions))],
		Encrypted:  rng.IntN(3) == 0,
		home:       homes[rng.IntN(len(homes))],
		Spaced:     true,
		fillers:    []int{0, 0, 0, 239}[rng.IntN(4)],
		budget:     []int64{testkit.SmallBudget, 0}[rng.IntN(2)],
	}
}

// NewRun makes a run on an empty disk in memory. The database is not open yet.
func NewRun(s Shape) *Run {
	r := &Run{FS: memfs.New(), clock: testkit.NewClock(), keys: s.Keys, still: s.Still, large: max(s.large, 30), Model: model.NewMap()}
	r.Work.Tally = new(testkit.WorkTally)
	r.Model.Versions = max(s.versions, 1)
	r.Opts = stoat.Options{
		FS: r.FS, Clock: r.clock, MemtableSize: s.Memtable, MemoryBudget: s.budget, Durability: s.Durability, NumVersions: s.versions,
		Compression: s.compress, Events: r.Work.Tally.Note,
		Keys: testkit.KeysIf(s.Encrypted), DataKeyAge: time.Minute,
	}
	r.tail = model.Tail{Keep: max(s.large, 200)}
	var function stoat.MergeFunction = r.tail
	if s.Still || s.versions == 2 {
		function = model.CombiningTail{Tail: r.tail}
	}
	r.Opts.MergeFunction, r.Opts.MergeFunctions = function.Name(), []stoat.MergeFunction{function}
	if r.home, r.spaced, r.fillers = s.home, s.Spaced, s.fillers; r.home != "" {
		r.Opts.NumVersions = 1 // the settings of another keyspace do not matter
	}
	return r
}

func (r *Run) say(format string, args ...any) {
	if r.narrate != nil {
		r.narrate(format, args...)
	}
}

// Open opens the database and demands commit want of it, no more, no less.
func (r *Run) Open(floor, ceiling uint64) (uint64, error) {
	db, err := stoat.Open(testkit.Dir, &r.Opts)
	if err != nil {
		return 0, fmt.Errorf("open: %w", err)
	}
	r.DB = db
	if err := r.checkSettings(); err != nil {
		return 0, err
	}
	version, err := testkit.VersionOf(db)
	if err == nil && (version < floor || version > ceiling) {
		err = fmt.Errorf("opened at commit %d, want %d to %d", version, floor, ceiling)
	}
	if err == nil {
		err = r.openSpaces()
	}
	return version, err
}

// Close ends the database cleanly.
func (r *Run) Close() error {
	err := errors.Join(r.DB.Close(), r.settle())
	for _, p := range r.txns {
		if err == nil {
			err = r.useAfterClose(p)
		}
		p.Tx.Discard()
	}
	r.txns = nil
	r.known, r.durable = r.Model.Last(), r.Model.Last()
	return errors.Join(err, r.noPlainText())
}

// noPlainText demands that no file of an encrypted database has the sentinel.
func (r *Run) noPlainText() error {
	if r.Opts.Keys == nil {
		return nil
	}
	return testkit.NoSentinel(r.FS, testkit.Dir)
}

func (r *Run) useAfterClose(p *Pair) error {
	if _, err := p.Tx.Get([]byte("k")); !errors.Is(err, stoat.ErrClosed) {
		return fmt.Errorf("t%d.Get after Close: %v, want ErrClosed", p.name, err)
	}
	if err := p.Tx.Commit(); !errors.Is(err, stoat.ErrClosed) {
		return fmt.Errorf("t%d.Commit after Close: %v, want ErrClosed", p.name, err)
	}
	return nil
}

// Abandon leaves the database as a dying process would, and goes on with
// what disk was left.
func (r *Run) Abandon(disk *memfs.FS) error {
	err := r.settle()
	for _, p := range r.txns {
		p.Tx.Discard()
	}
	r.txns = nil
	if closeErr := r.DB.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("close: %w", closeErr)
	}
	r.FS, r.Opts.FS = disk, disk
	// Time at which no reader saw anything expire is not kept through a crash,
	// so the clock must not be behind it.
	r.clock.Ms.Store(max(r.clock.Ms.Load(), r.clock.High.Load()))
	return errors.Join(err, r.noPlainText())
}

// settle waits for every commit that was handed over.
func (r *Run) settle() error {
	var errs []error
	for _, a := range r.asyncs {
		errs = append(errs, r.await(a))
	}
	r.asyncs = nil
	return errors.Join(errs...)
}

func (r *Run) await(a *asyncCommit) error {
	err := <-a.done
	if a.conflict {
		if !errors.Is(err, stoat.ErrConflict) {
			return fmt.Errorf("async commit: %v (version %d), want ErrConflict", err, a.version)
		}
		return nil
	}
	r.known = max(r.known, a.seq)
	if err != nil {
		return fmt.Errorf("async commit %d: %w", a.seq, err)
	}
	if a.version != a.seq {
		return fmt.Errorf("an async commit got version %d, want %d", a.version, a.seq)
	}
	return nil
}

// Begin starts a transaction on both sides.
func (r *Run) Begin(write bool) (*Pair, error) {
	mode := stoat.ReadOnly
	if write {
		mode = stoat.ReadWrite
	}
	tx, err := r.DB.Begin(mode)
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	p, err := r.adopt(tx, write)
	if err != nil {
		tx.Discard()
		return nil, err
	}
	r.txns = append(r.txns, p)
	return p, nil
}

// adopt makes a pair of a transaction of the database.
func (r *Run) adopt(tx stoat.Txn, write bool) (*Pair, error) {
	r.values++
	p := &Pair{name: r.values, write: write, Tx: r.in(tx)}
	seq := tx.ReadVersion()
	if seq < r.known || seq > r.Model.Last() {
		return nil, fmt.Errorf("begin: snapshot at %d, want %d to %d", seq, r.known, r.Model.Last())
	}
	p.model = r.Model.Begin(seq, write)
	r.say("t%d := begin(write %v) at %d", p.name, write, seq)
	return p, r.fixTime(p)
}

// fixTime makes a transaction ask for the time. The transaction judges expiry by that time
// from then on. Background work asks for the time too, so the model could not tell when the
// transaction first asks.
func (r *Run) fixTime(p *Pair) error {
	p.model.NowMs = r.clock.Seen()
	if r.still {
		return nil
	}
	return r.get(p, timeKey)
}

// timeKey is a key with an expiry that never comes. A read of it asks the clock for
// the time.
const timeKey = "\xff\xffthe time"

// keepTime writes the time key.
func (r *Run) keepTime() error {
	if r.still {
		return nil
	}
	w := model.Write{Key: timeKey, Version: model.Version{Value: "t", ExpiresAt: 4 * testkit.ClockStart}}
	err := r.DB.Update(func(tx stoat.Txn) error { return testkit.Put(r.in(tx), w) }, stoat.WithDurability(stoat.Synced))
	r.known = r.Model.Commit([]model.Write{w})
	r.durable = r.known
	return err
}

// counted runs a call that the campaign counts.
func (r *Run) counted(do func() error) error {
	r.Work.calls++
	return do()
}

// Forget takes p off the list of open transactions.
func (r *Run) Forget(p *Pair) {
	for i, other := range r.txns {
		if other == p {
			r.txns = append(r.txns[:i], r.txns[i+1:]...)
			return
		}
	}
}

// commit ends p on both sides and demands the same outcome.
func (r *Run) commit(p *Pair, d stoat.Durability) error {
	var opts []stoat.CommitOption
	if d != 0 {
		opts = append(opts, stoat.WithDurability(d))
	} else {
		d = r.Opts.Durability
	}
	r.Work.calls++
	r.Forget(p)
	value, err := r.mark(p)
	if err != nil {
		return err
	}
	seq, ok := p.model.CommitAt(r.clock.Seen())
	if ok && value != "" {
		r.spaces.marks = append(r.spaces.marks, mark{seq, value})
	}
	r.say("t%d.Commit(%d): commit %d, conflict %v", p.name, d, seq, !ok)
	return r.committed(p.Tx.Commit(opts...), p.Tx.CommitVersion(), seq, ok, d)
}

// committed compares the outcome of a commit with what the model says.
func (r *Run) committed(err error, version, seq uint64, ok bool, d stoat.Durability) error {
	if !ok {
		if !errors.Is(err, stoat.ErrConflict) {
			return fmt.Errorf("commit: %v (version %d), want ErrConflict", err, version)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("commit: %w, want commit %d", err, seq)
	}
	if version != seq {
		return fmt.Errorf("CommitVersion is %d, want %d", version, seq)
	}
	if seq != 0 {
		r.known = max(r.known, seq)
		if d == stoat.Synced {
			r.durable = max(r.durable, seq)
		}
	}
	return nil
}

// Verify compares the whole database with the model.
func (r *Run) Verify() error {
	tx, err := r.DB.Begin(stoat.ReadOnly)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Discard()
	if v := tx.ReadVersion(); v < r.known || v > r.Model.Last() {
		return fmt.Errorf("snapshot at %d, want %d to %d", v, r.known, r.Model.Last())
	}
	if err := testkit.Compare(r.in(tx), r.Model, r.clock.Seen()); err != nil {
		return err
	}
	return r.verifySpaces(tx)
}

// A keySpace makes keys of numbers.
type keySpace struct {
	name string
	n    int
	key  func(i int) string
}

// KeySpaces are the kinds of keys that runs use. The widths matter. There are keys within
// eight bytes, common heads longer than that, keys that are heads of other keys, and bytes
// of 0 and 255.
var KeySpaces = []keySpace{
	{"few", 12, func(i int) string { return string([]byte{'a' + byte(i)}) }},
	{"numbers", 400, func(i int) string { return fmt.Sprintf("key%05d", i) }},
	{"many", 4000, func(i int) string { return fmt.Sprintf("%04d", i) }},
	{"long head", 150, func(i int) string { return strings.Repeat(testkit.Sentinel+" for all ", 4) + fmt.Sprint(i) }},
	{"heads of each other", 40, func(i int) string { return strings.Repeat("x", 1+i) }},
	{"zeros and ones", 60, func(i int) string {
		return string([]byte{"\x00\xff\x01"[i%3], "\x00\xff\x7f\x80"[i/3%4]}) + strings.Repeat("\x00", i/12)
	}},
	{"very long", 20, func(i int) string { return strings.Repeat(string([]byte{byte(i) + 'A'}), 1+i*i*20) }},
}

// pick draws a key.
func (k keySpace) pick(rng *rand.Rand) string { return k.key(rng.IntN(k.n)) }

// near draws a key that is in the space or next to one that is.
func (k keySpace) near(rng *rand.Rand) string {
	key := k.pick(rng)
	switch rng.IntN(5) {
	case 0:
		return key + "\x00"
	case 1:
		return key[:len(key)/2] + "~"
	case 2:
		return key[:1]
	}
	return key
}

// CommitSome commits n transactions with random values of up to size more bytes
// than 16.
func CommitSome(t *testing.T, r *Run, n, size int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(n), uint64(size)))
	for range n {
		p, err := r.Begin(true)
		testkit.Must(t, err)
		for range 1 + rng.IntN(3) {
			v := model.Version{Value: testkit.RandomValue(rng, size), Deleted: rng.IntN(6) == 0}
			if v.Deleted {
				v.Value = ""
			}
			testkit.Must(t, r.Write(p, r.keys.key(rng.IntN(12)), v))
		}
		testkit.Must(t, r.commit(p, 0))
	}
}
