package table

import "sync/atomic"

// A bitmap remembers what has been verified. It is safe for concurrent use: two
// goroutines that verify the same part at once only repeat the work.
type bitmap []atomic.Uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

func (b bitmap) has(i int) bool { return b[i>>6].Load()&(1<<(i&63)) != 0 }

func (b bitmap) set(i int) { b[i>>6].Or(1 << (i & 63)) }

func (b bitmap) clear() {
	for i := range b {
		b[i].Store(0)
	}
}
