package schedules

import (
	"testing"
)

// shortOrders is how many random orders of each scenario a short test plays.
const shortOrders = 30

// TestInterleavings plays all orders of the steps of each scenario. In each order all
// actors see what the model shows, and the database holds what it should, before and
// after another opening.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	for i := range scenarios {
		s := &scenarios[i]
		t.Run(s.fault, func(t *testing.T) {
			t.Parallel()
			begin, err := s.prepared()
			if err != nil {
				t.Fatalf("before the first: %v", err)
			}
			var n int
			var did scheduleCounts
			if testing.Short() {
				n, did, err = s.playSome(begin, shortOrders)
			} else {
				n, did, err = s.playAll(begin)
			}
			if err != nil {
				t.Fatalf("order %d: %v", n, err)
			}
			t.Logf("%d orders: %+v", n, did)
			if !s.comesTo(did) {
				t.Error("the orders do not come to what they are about")
			}
		})
	}
}

func TestInterleavings_OrdersAreAllThatThereAre(t *testing.T) {
	t.Parallel()
	// Three and two steps in all orders: 5!/(3! 2!).
	var o orders
	seen := map[string]bool{}
	for first := true; first || o.next(); first = false {
		left := map[*actor]int{{name: "a"}: 3, {name: "b"}: 2}
		var all []*actor
		for _, name := range []string{"a", "b"} {
			for a := range left {
				if a.name == name {
					all = append(all, a)
				}
			}
		}
		story := ""
		for {
			var able []*actor
			for _, a := range all {
				if left[a] > 0 {
					able = append(able, a)
				}
			}
			if len(able) == 0 {
				break
			}
			a := o.choose(able)
			left[a]--
			story += a.name
		}
		if seen[story] {
			t.Errorf("%s comes twice", story)
		}
		seen[story] = true
	}
	if len(seen) != 10 {
		t.Errorf("%d orders, want 10: %v", len(seen), seen)
	}
}
