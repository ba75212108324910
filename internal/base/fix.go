package base

// fixMax is the longest part, in bytes, in which FixBit looks for a wrong bit.
const fixMax = 4 << 10

// FixBit flips each bit of b until right accepts it. Otherwise it leaves b unchanged.
func FixBit(b []byte, right func() bool) bool {
	if len(b) > fixMax {
		return false
	}
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			if right() {
				return true
			}
			b[i] ^= 1 << bit
		}
	}
	return false
}
