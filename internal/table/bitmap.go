package table

import "sync/atomic"

// A bitmap remembers what has been verified. Any number of goroutines may use
// it; two that verify the same thing at once only do the work twice.
type bitmap []atomic.Uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

func (b bitmap) has(i int) bool { return b[i>>6].Load()&(1<<(i&63)) != 0 }

func (b bitmap) set(i int) { b[i>>6].Or(1 << (i & 63)) }

func (b bitmap) clear() {
	for i := range b {
		b[i].Store(0)
	}
}
