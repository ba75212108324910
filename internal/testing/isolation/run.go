package isolation

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// A Config says how Run drives a store.
type Config struct {
	Seed    uint64
	Clients int
	// Txns is how many transactions each client runs.
	Txns int
	// Ops is the most operations of a transaction.
	Ops int
	// Keys is the number of keys. Few keys cause many conflicts.
	Keys int
	// Pad bounds the padding of values, in bytes.
	Pad int
	// Retries is how often a client repeats a transaction after a conflict.
	Retries int
	// Blind turns most sets and deletions into merges, so that operands pile up.
	Blind bool
	// Counts is History.Counts.
	Counts bool
	// Times, if it is not 0, is the number of timestamps. The first one is Floor, at
	// least 1. Such a history has no merges.
	Times int
	Floor uint64
	// All lets scans draw Query.All. The store then keeps all versions.
	All bool
}

// opsMost is the most operations of a transaction that RandomConfig draws. A store may
// take reads at more timestamps than 8 for reads at all of them, which makes conflicts
// without a reason.
const opsMost = 8

// RandomConfig draws a configuration.
func RandomConfig(seed uint64) Config {
	rng := rand.New(rand.NewPCG(seed, 0xc0f16))
	cfg := Config{
		Seed:    seed,
		Clients: 2 + rng.IntN(9),
		Txns:    5 + rng.IntN(30),
		Ops:     1 + rng.IntN(opsMost),
		Keys:    1 + rng.IntN(24),
		Retries: rng.IntN(3),
		Pad:     [...]int{0, 100, 1000}[rng.IntN(3)],
		Blind:   rng.IntN(3) == 0,
	}
	if cfg.Blind && rng.IntN(2) == 0 {
		cfg.Keys, cfg.Txns = 1+rng.IntN(2), 2*cfg.Txns // the operands of one key are many
	}
	switch rng.IntN(4) {
	case 0:
		cfg.Floor, cfg.Times, cfg.All = 1, 1+rng.IntN(12), true
	case 1:
		cfg.Counts = true
	}
	return cfg
}

// Run drives the store and records a history. A client stops at its first error
// that is not a conflict. base is the version of the newest commit before, and
// initial the state as of base.
func Run(store Store, cfg Config, base uint64, initial []Item) (*History, error) {
	r := &runner{store: store, cfg: cfg}
	perClient := make([][]*Txn, cfg.Clients)
	errs := make([]error, cfg.Clients)
	var clients sync.WaitGroup
	for i := range cfg.Clients {
		clients.Go(func() {
			c := &client{runner: r, number: i, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(i)))}
			perClient[i], errs[i] = c.run()
		})
	}
	clients.Wait()
	h := &History{Base: base, Initial: initial, Counts: cfg.Counts, Timed: cfg.Times > 0}
	for _, txns := range perClient {
		h.Txns = append(h.Txns, txns...)
	}
	return h, errors.Join(errs...)
}

type runner struct {
	store Store
	cfg   Config
	ticks atomic.Int64
}

func (r *runner) tick() int64 { return r.ticks.Add(1) }

type client struct {
	*runner
	number int
	rng    *rand.Rand
	txns   []*Txn
	values int
}

func (c *client) run() ([]*Txn, error) {
	for range c.cfg.Txns {
		plan := c.plan()
		if u, ok := c.store.(Updater); ok && plan.write && c.rng.IntN(2) == 0 {
			if err := c.update(u, plan); err != nil {
				return c.txns, fmt.Errorf("client %d: %w", c.number, err)
			}
			continue
		}
		for attempt := 0; ; attempt++ {
			t, err := c.attempt(plan)
			if err != nil {
				return c.txns, fmt.Errorf("client %d: %w", c.number, err)
			}
			if t.Outcome != Conflicted || attempt == c.cfg.Retries {
				break
			}
		}
	}
	return c.txns, nil
}

// A plan is a transaction before it runs, so its operations have no answers.
type plan struct {
	write, discard bool
	ops            []Op
}

// plan draws a transaction. The shapes are those of anomalies: read some keys
// and write others, scan and insert, read absent keys.
func (c *client) plan() plan {
	p := plan{write: c.rng.IntN(4) != 0, discard: c.rng.IntN(20) == 0}
	for range 1 + c.rng.IntN(c.cfg.Ops) {
		p.ops = append(p.ops, c.op(p.write))
	}
	return p
}

func (c *client) op(write bool) Op {
	op := c.draw(write)
	if c.cfg.Times > 0 {
		op.At = c.cfg.Floor + c.rng.Uint64N(uint64(c.cfg.Times))
		op.Query.All = op.Kind == OpScan && c.cfg.All && c.rng.IntN(4) == 0
	}
	return op
}

func (c *client) draw(write bool) Op {
	switch n := c.rng.IntN(13); {
	case n < 3:
		return Op{Kind: OpGet, Key: c.key()}
	case n < 6 || !write:
		return Op{Kind: OpScan, Query: c.query()}
	case c.cfg.Times == 0 && (n < 8 || c.cfg.Blind && c.rng.IntN(4) > 0):
		if c.rng.IntN(8) == 0 {
			return Op{Kind: OpRenew, Key: c.key()}
		}
		return Op{Kind: OpMerge, Key: c.key(), Value: c.operand()}
	case n < 11:
		return Op{Kind: OpSet, Key: c.key(), Value: c.value()}
	case c.rng.IntN(4) == 0:
		return Op{Kind: OpDeleteRange, Query: c.span()}
	}
	return Op{Kind: OpDelete, Key: c.key()}
}

// operand returns an operand that no other transaction writes.
func (c *client) operand() string {
	if c.cfg.Counts {
		return c.value()
	}
	return operandSign + c.value()
}

// value returns a value that no other transaction writes. Name and padding
// differ as far as possible. A number is one of many.
func (c *client) value() string {
	c.values++
	if c.cfg.Counts {
		return strconv.FormatInt(c.rng.Int64N(1<<41)-1<<40, 10)
	}
	name := fmt.Sprintf("%d.%d", c.number, c.values)
	if c.cfg.Pad == 0 {
		return name
	}
	return name + " " + strings.Repeat(name, c.cfg.Pad/len(name))[:c.rng.IntN(c.cfg.Pad/2)]
}

// span returns a nonempty range to delete, usually of few keys and sometimes
// without an end.
func (c *client) span() Query {
	from := c.rng.IntN(c.cfg.Keys)
	q := Query{Lo: keyName(from), Hi: keyName(from + 1 + c.rng.IntN(4))}
	if c.rng.IntN(8) == 0 {
		q.Hi = ""
	}
	if c.rng.IntN(8) == 0 {
		q.Lo = ""
	}
	return q
}

func (c *client) key() string { return keyName(c.rng.IntN(c.cfg.Keys)) }

func keyName(n int) string { return fmt.Sprintf("key%02d", n) }

func (c *client) query() Query {
	q := Query{Reverse: c.rng.IntN(2) == 0, KeysOnly: c.rng.IntN(3) == 0}
	if c.rng.IntN(3) != 0 {
		q.Lo = c.key()
	}
	if c.rng.IntN(3) != 0 {
		q.Hi = c.key()
	}
	if c.rng.IntN(2) == 0 {
		q.Limit = 1 + c.rng.IntN(4)
	}
	return q
}

// attempt runs a plan once and records it.
func (c *client) attempt(p plan) (*Txn, error) {
	t := &Txn{Client: c.number, Number: len(c.txns), BeginCalled: c.tick()}
	tx, err := c.store.Begin(p.write)
	if err != nil {
		return nil, err
	}
	t.Began = c.tick()
	t.ReadVersion = tx.ReadVersion()
	if err := c.answerAll(t, tx, p.ops); err != nil {
		tx.Discard()
		return nil, err
	}
	t.EndCalled = c.tick()
	err = c.end(t, tx, p.discard)
	t.Ended = c.tick()
	c.txns = append(c.txns, t)
	return t, err
}

// errDiscarded ends an update that is to write nothing.
var errDiscarded = errors.New("discarded")

// update runs a plan in an update, and records each run.
func (c *client) update(u Updater, p plan) error {
	var t *Txn
	called := c.tick()
	ended, err := u.Update(3*c.cfg.Retries, func(tx Tx) error {
		if t != nil { // the run before met a conflict
			t.Outcome, called = Conflicted, t.EndCalled
			t.Ended = c.tick()
		}
		t = &Txn{Client: c.number, Number: len(c.txns), Inside: true, BeginCalled: called, Began: c.tick(), ReadVersion: tx.ReadVersion()}
		c.txns = append(c.txns, t)
		if err := c.answerAll(t, tx, p.ops); err != nil {
			return err
		}
		t.EndCalled = c.tick()
		if p.discard {
			return errDiscarded
		}
		return nil
	})
	t.Ended = c.tick()
	switch {
	case errors.Is(err, errDiscarded):
		t.Outcome = Discarded
	case err != nil:
		return err
	default:
		t.end(ended)
	}
	return nil
}

// answerAll runs the operations of a plan, and records their answers.
func (c *client) answerAll(t *Txn, tx Tx, ops []Op) error {
	for _, op := range ops {
		if err := answer(tx, &op); err != nil {
			return err
		}
		t.Ops = append(t.Ops, op)
		// On few processors a goroutine would run its transaction without
		// interruption. Yielding makes transactions overlap.
		if c.rng.IntN(2) == 0 {
			runtime.Gosched()
		}
	}
	return nil
}

func (c *client) end(t *Txn, tx Tx, discard bool) error {
	if discard {
		tx.Discard()
		t.Outcome = Discarded
		return nil
	}
	ended, err := tx.Commit()
	if err == nil {
		t.end(ended)
	}
	return err
}

// end notes the result of a commit.
func (t *Txn) end(ended Commit) {
	if ended.Conflict {
		t.Outcome = Conflicted
		return
	}
	t.Outcome, t.CommitVersion, t.Untold = Committed, ended.Version, ended.Untold
}

// answer runs one operation and fills in its answer.
func answer(tx Tx, op *Op) (err error) {
	if op.At != 0 {
		tx.At(op.At)
	}
	switch op.Kind {
	case OpGet:
		op.Item, op.Found, err = tx.Get(op.Key)
	case OpScan:
		op.Items, op.Exhausted, err = tx.Scan(op.Query)
	case OpSet:
		err = tx.Set(op.Key, op.Value)
	case OpDelete:
		err = tx.Delete(op.Key)
	case OpDeleteRange:
		err = tx.DeleteRange(op.Query.Lo, op.Query.Hi)
	case OpMerge:
		err = tx.Merge(op.Key, op.Value)
	case OpRenew:
		err = tx.Renew(op.Key)
	}
	return err
}
