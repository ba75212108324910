package isolation

import (
	"fmt"
	"math/rand/v2"
	"sync"
)

// receipts: the batch processing of Ports and Grittner. A receipt goes into the
// current batch. Closing a batch moves the counter. A report of a closed batch
// is read-only. Once a report was made, its total must never change. Under
// snapshot isolation alone it does, and only the reader makes it an anomaly.
func receipts() Application {
	var mu sync.Mutex
	reported := make(map[int]int)
	receipt := func(batch int) string { return fmt.Sprintf("receipt/%04d/", batch) }
	return Application{
		Name: "receipts",
		Fill: fillNumbers(1, "batch"),
		Work: func(tx Tx, rng *rand.Rand) error {
			batch, err := number(tx, "batch")
			if err != nil {
				return err
			}
			if rng.IntN(4) == 0 {
				return setNumber(tx, "batch", batch+1)
			}
			return setNumber(tx, fmt.Sprintf("%s%d", receipt(batch), rng.Uint64()), 1+rng.IntN(9))
		},
		Look: func(tx Tx) error {
			batch, err := number(tx, "batch")
			if err != nil {
				return err
			}
			for closed := max(1, batch-3); closed < batch; closed++ {
				total, _, err := sum(tx, receipt(closed), closed%2 == 0)
				if err != nil {
					return err
				}
				mu.Lock()
				before, known := reported[closed]
				reported[closed] = total
				mu.Unlock()
				if known && before != total {
					return fmt.Errorf("the report of batch %d said %d and now says %d", closed, before, total)
				}
			}
			return nil
		},
	}
}

// bank: transfers keep the total. Look is a scan, sometimes backward.
func bank() Application {
	const opening = 100
	accounts := numbered("account/", 8)
	return Application{
		Name: "bank",
		Fill: fillNumbers(opening, accounts...),
		Work: func(tx Tx, rng *rand.Rand) error {
			from, to := rng.IntN(len(accounts)), rng.IntN(len(accounts)-1)
			if to >= from {
				to++
			}
			have, err := number(tx, accounts[from])
			if err != nil {
				return err
			}
			amount := 1 + rng.IntN(40)
			if have < amount {
				return errNothingToDo
			}
			other, err := number(tx, accounts[to])
			if err != nil {
				return err
			}
			if err := setNumber(tx, accounts[from], have-amount); err != nil {
				return err
			}
			return setNumber(tx, accounts[to], other+amount)
		},
		Look: func(tx Tx) error {
			total, count, err := sum(tx, "account/", tx.ReadVersion()%2 == 0)
			if err == nil && (total != opening*len(accounts) || count != len(accounts)) {
				err = fmt.Errorf("%d accounts hold %d, want %d with %d", count, total, len(accounts), opening*len(accounts))
			}
			return err
		},
	}
}

// counters: every increment moves one counter and the grand total, which must
// agree. A lost update shows as a difference.
func counters() Application {
	names := numbered("counter/", 3)
	return Application{
		Name: "counters",
		Fill: fillNumbers(0, names...),
		Work: func(tx Tx, rng *rand.Rand) error {
			for _, key := range []string{names[rng.IntN(len(names))], "grand total"} {
				n, err := number(tx, key)
				if err != nil {
					return err
				}
				if err := setNumber(tx, key, n+1); err != nil {
					return err
				}
			}
			return nil
		},
		Look: func(tx Tx) error {
			total, _, err := sum(tx, "counter/", false)
			if err != nil {
				return err
			}
			grand, err := number(tx, "grand total")
			if err == nil && grand != total {
				err = fmt.Errorf("the counters add up to %d, the grand total is %d", total, grand)
			}
			return err
		},
	}
}

// queue: producers append after the last element, consumers take the first. Both
// find their place by a scan of one key. The existing elements must be exactly
// those between the last taken and the last appended.
func queue() Application {
	element := func(n int) string { return fmt.Sprintf("queue/%08d", n) }
	return Application{
		Name: "queue",
		Fill: func(tx Tx) error { return tx.Set(element(1), "x") },
		Work: func(tx Tx, rng *rand.Rand) error {
			q := prefix("queue/")
			q.Limit, q.Reverse, q.KeysOnly = 1, rng.IntN(2) == 0, true
			items, _, err := tx.Scan(q)
			if err != nil {
				return err
			}
			if !q.Reverse {
				if len(items) == 0 {
					return errNothingToDo
				}
				n, err := parseTail(items[0].Key)
				if err != nil {
					return err
				}
				if err := setNumber(tx, "taken", n); err != nil {
					return err
				}
				return tx.Delete(items[0].Key)
			}
			last, err := number(tx, "taken")
			if err == nil && len(items) > 0 {
				last, err = parseTail(items[0].Key)
			}
			if err != nil {
				return err
			}
			return tx.Set(element(last+1), "x")
		},
		Look: func(tx Tx) error {
			taken, err := number(tx, "taken")
			if err != nil {
				return err
			}
			items, _, err := tx.Scan(prefix("queue/"))
			for i, it := range items {
				if n, err := parseTail(it.Key); err != nil || n != taken+1+i {
					return fmt.Errorf("element %d of the queue is %s after %d was taken: %w", i, it.Key, taken, err)
				}
			}
			return err
		},
	}
}

// deposits: a withdrawal may overdraw one of two accounts if both together cover
// it. If they do not, it deposits instead. This is the read-only anomaly of
// Fekete, O'Neil and O'Neil, with the invariant that the sum never falls below
// zero.
func deposits() Application {
	names := []string{"deposit/checking", "deposit/savings"}
	return Application{
		Name: "deposits",
		Fill: fillNumbers(50, names...),
		Work: func(tx Tx, rng *rand.Rand) error {
			total, _, err := sum(tx, "deposit/", rng.IntN(2) == 0)
			if err != nil {
				return err
			}
			key := names[rng.IntN(2)]
			have, err := number(tx, key)
			if err != nil {
				return err
			}
			amount := rng.IntN(60) - 20
			if total < amount {
				amount = -30
			}
			return setNumber(tx, key, have-amount)
		},
		Look: func(tx Tx) error { return atLeast(tx, "deposit/", 0) },
	}
}
