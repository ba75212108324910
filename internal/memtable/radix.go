package memtable

import "math/bits"

const (
	// digitBits is the greatest width of a digit of the radix sort: the counts
	// of one digit fit the first-level cache.
	digitBits = 11
	digitsMax = 3
)

// varyingBits returns the bits of hi that differ between items.
func varyingBits(items []item) uint64 {
	first, varying := items[0].hi, uint64(0)
	for i := range items {
		varying |= items[i].hi ^ first
	}
	return varying
}

// radix sorts items by the highest of the varying bits of hi, stably. It uses as
// many bits as tell nearly all keys apart if they are random, and returns these
// bits. Bits that are equal in all items cost nothing: of decimal digits, the
// sort uses only the four low bits of each byte.
func radix(items, tmp []item, varying uint64) uint64 {
	// A quarter more bits than the logarithm, and 3: some codes of the bits are
	// unused, such as six of sixteen for decimal digits.
	want := min(bits.Len(uint(len(items)))*5/4+3, digitBits*digitsMax)
	looked := highest(varying, want)
	n := bits.OnesCount64(looked)
	count := (n + digitBits - 1) / digitBits
	width := (n + count - 1) / count
	from, to := items, tmp
	for rest := looked; rest != 0; from, to = to, from {
		low := lowest(rest, width)
		rest &^= low
		scatter(from, to, newDigit(low))
	}
	if &from[0] != &items[0] {
		copy(items, from)
	}
	return looked
}

// scatter sorts items stably by one digit.
func scatter(from, to []item, d digit) {
	var counts [1 << digitBits]uint32
	for i := range from {
		counts[d.of(from[i].hi)&(1<<digitBits-1)]++
	}
	sum := uint32(0)
	used := counts[:1<<d.bits]
	for c, n := range used {
		used[c] = sum
		sum += n
	}
	for i := range from {
		c := &counts[d.of(from[i].hi)&(1<<digitBits-1)]
		to[*c] = from[i]
		*c++
	}
}

// A digit gathers bits of a word, one run of neighbouring bits at a time.
type digit struct {
	bits   int
	count  int
	shifts [digitBits]uint8
	masks  [digitBits]uint16
}

func newDigit(mask uint64) digit {
	d := digit{bits: bits.OnesCount64(mask)}
	for at := 0; mask != 0; d.count++ {
		low := bits.TrailingZeros64(mask)
		run := bits.TrailingZeros64(^(mask >> low))
		d.shifts[d.count] = uint8(low - at)
		d.masks[d.count] = uint16(1<<run-1) << at
		mask &^= (1<<run - 1) << low
		at += run
	}
	return d
}

// of returns the digit of x.
func (d *digit) of(x uint64) uint16 {
	c := uint16(x>>d.shifts[0]) & d.masks[0]
	for i := 1; i < d.count; i++ {
		c |= uint16(x>>d.shifts[i]) & d.masks[i]
	}
	return c
}

// lowest returns the n lowest set bits of mask.
func lowest(mask uint64, n int) uint64 {
	rest := mask
	for ; n > 0 && rest != 0; n-- {
		rest &= rest - 1
	}
	return mask &^ rest
}

// highest returns the n highest set bits of mask.
func highest(mask uint64, n int) uint64 {
	return bits.Reverse64(lowest(bits.Reverse64(mask), n))
}
