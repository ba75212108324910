package isolation

import (
	"fmt"
	"math/rand/v2"
)

// doctors: a doctor may leave if the other one stays. Two doctors that leave at
// once, because each saw the other, are the classic write skew.
func doctors() Application {
	on := numbered("doctor/", 2)
	return Application{
		Name: "doctors",
		Fill: fillNumbers(1, on...),
		Work: func(tx Tx, rng *rand.Rand) error {
			me := rng.IntN(2)
			mine, err := number(tx, on[me])
			if err != nil {
				return err
			}
			other, err := number(tx, on[1-me])
			if err != nil {
				return err
			}
			if mine == 0 {
				return setNumber(tx, on[me], 1)
			}
			if other == 0 {
				return errNothingToDo
			}
			return setNumber(tx, on[me], 0)
		},
		Look: func(tx Tx) error { return atLeast(tx, "doctor/", 1) },
	}
}

func atLeast(tx Tx, p string, least int) error {
	total, _, err := sum(tx, p, false)
	if err == nil && total < least {
		err = fmt.Errorf("the sum of %s is %d, want at least %d", p, total, least)
	}
	return err
}

// doctorsByScan: the same invariant, where the doctors on call are the existing
// keys and leaving is a deletion. The check is a scan, usually of keys only.
func doctorsByScan() Application {
	names := numbered("oncall/", 5)
	return Application{
		Name: "doctors by scan",
		Fill: fillNumbers(1, names...),
		Work: func(tx Tx, rng *rand.Rand) error {
			me := names[rng.IntN(len(names))]
			q := prefix("oncall/")
			q.KeysOnly, q.Reverse = rng.IntN(4) != 0, rng.IntN(2) == 0
			items, _, err := tx.Scan(q)
			if err != nil {
				return err
			}
			for _, it := range items {
				if it.Key != me {
					continue
				}
				if len(items) == 1 {
					return errNothingToDo
				}
				return tx.Delete(me)
			}
			return setNumber(tx, me, 1)
		},
		Look: func(tx Tx) error { return atLeast(tx, "oncall/", 1) },
	}
}

// roomBooking: a transaction books some hours if a scan of those hours finds no
// booking. A booking lies at its first hour, so the scan must guard gaps,
// including hours before its own start.
func roomBooking() Application {
	const hours, longest = 24, 4
	key := func(h int) string { return fmt.Sprintf("room/%02d", h) }
	return Application{
		Name: "room booking",
		Fill: func(tx Tx) error { return setNumber(tx, key(0), 1) },
		Work: func(tx Tx, rng *rand.Rand) error {
			from, length := rng.IntN(hours), 1+rng.IntN(longest)
			q := Query{Lo: key(max(0, from-longest)), Hi: key(from + length), Reverse: rng.IntN(2) == 0}
			items, _, err := tx.Scan(q)
			if err != nil {
				return err
			}
			for _, it := range items {
				if end, err := bookingEnd(it); err != nil {
					return err
				} else if end > from {
					return tx.Delete(it.Key)
				}
			}
			return setNumber(tx, key(from), length)
		},
		Look: func(tx Tx) error {
			items, _, err := tx.Scan(prefix("room/"))
			last := 0
			for _, it := range items {
				from, err := parseTail(it.Key)
				if err != nil {
					return err
				}
				if from < last {
					return fmt.Errorf("the booking at %d begins before the one before it ends at %d", from, last)
				}
				if last, err = bookingEnd(it); err != nil {
					return err
				}
			}
			return err
		},
	}
}

// bookingEnd returns the first hour after a booking.
func bookingEnd(it Item) (int, error) {
	from, err := parseTail(it.Key)
	if err != nil {
		return 0, err
	}
	var length int
	_, err = fmt.Sscan(it.Value, &length)
	return from + length, err
}

// absentTwins: each of two keys may be created while the other is absent. Only
// the read of an absent key prevents both.
func absentTwins() Application {
	const pairs = 4
	return Application{
		Name: "absent twins",
		Fill: func(tx Tx) error { return tx.Set("twin", "x") },
		Work: func(tx Tx, rng *rand.Rand) error {
			pair, side := rng.IntN(pairs), rng.IntN(2)
			mine, other := fmt.Sprintf("twin/%d/%d", pair, side), fmt.Sprintf("twin/%d/%d", pair, 1-side)
			_, found, err := tx.Get(other)
			if err != nil {
				return err
			}
			if found {
				return tx.Delete(other)
			}
			return tx.Set(mine, "x")
		},
		Look: func(tx Tx) error {
			items, _, err := tx.Scan(prefix("twin/"))
			for i := 1; i < len(items); i++ {
				a, b := items[i-1].Key, items[i].Key
				if a[:len(a)-1] == b[:len(b)-1] {
					return fmt.Errorf("both %s and %s exist", a, b)
				}
			}
			return err
		},
	}
}

// uniqueNames: a user takes a name if a scan of all users finds no owner. The
// writes never touch a common key.
func uniqueNames() Application {
	const users, names = 12, 6
	return Application{
		Name: "unique names",
		Fill: func(tx Tx) error { return tx.Set("user/00", "0") },
		Work: func(tx Tx, rng *rand.Rand) error {
			me, want := fmt.Sprintf("user/%02d", rng.IntN(users)), fmt.Sprint(rng.IntN(names))
			items, _, err := tx.Scan(prefix("user/"))
			if err != nil {
				return err
			}
			for _, it := range items {
				if it.Value == want {
					return tx.Delete(it.Key)
				}
			}
			return tx.Set(me, want)
		},
		Look: func(tx Tx) error {
			items, _, err := tx.Scan(prefix("user/"))
			owner := make(map[string]string)
			for _, it := range items {
				if other, taken := owner[it.Value]; taken {
					return fmt.Errorf("%s and %s have one name, %q", other, it.Key, it.Value)
				}
				owner[it.Value] = it.Key
			}
			return err
		},
	}
}

// blackAndWhite: one kind of transaction makes all white stones black, another
// the reverse. A third mixes the colours again and records that. Run one after
// the other, they leave one colour or the record.
func blackAndWhite() Application {
	const mixed = "mixed"
	keys := numbered("stone/", 6)
	return Application{
		Name: "black and white",
		Fill: fillNumbers(0, keys...),
		Work: func(tx Tx, rng *rand.Rand) error {
			colour := rng.IntN(3)
			for i, key := range keys {
				n, err := number(tx, key)
				if err != nil {
					return err
				}
				want := colour
				if colour == 2 {
					want = i % 2
				}
				if n == want {
					continue
				}
				if err := setNumber(tx, key, want); err != nil {
					return err
				}
			}
			return setNumber(tx, mixed, colour/2)
		},
		Look: func(tx Tx) error {
			isMixed, err := number(tx, mixed)
			if err != nil {
				return err
			}
			total, count, err := sum(tx, "stone/", true)
			if err == nil && isMixed == 0 && total != 0 && total != count {
				err = fmt.Errorf("%d of %d are black, and no transaction mixed them", total, count)
			}
			return err
		},
	}
}
