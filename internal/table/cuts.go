package table

// Cuts returns keys, ascending, that cut the table into that many parts of about equal
// size, or into fewer if it has fewer blocks. Each is the first key of a block, in memory
// of its own.
func (r *Reader) Cuts(parts int) ([][]byte, error) {
	parts = min(parts, int(r.blocks))
	var keys [][]byte
	for i := 1; i < parts; i++ {
		v, err := r.view(int(int64(r.blocks) * int64(i) / int64(parts)))
		if err != nil {
			return nil, err
		}
		keys = append(keys, v.appendKey(nil, 0))
	}
	return keys, nil
}
