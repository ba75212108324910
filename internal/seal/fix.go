package seal

// fixBudget is the longest part in bytes in which a wrong bit is searched.
const fixBudget = 4 << 10

// fixBit flips each bit of b until right accepts it. Otherwise it leaves b unchanged.
func fixBit(b []byte, right func() bool) bool {
	if len(b) > fixBudget {
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
