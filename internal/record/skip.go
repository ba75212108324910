package record

import "github.com/stoatdb/stoat/internal/mutant"

// Skip moves to the next frame that verifies, after Next or NextRecord failed with a
// CorruptionError, or ended before the end of the file. It reports false if there is no
// such frame. It is for a caller that saves what is left of a damaged file. The frames
// before that frame are lost, and its chain is not checked.
func (r *Reader) Skip() (bool, error) {
	if mutant.On(mutant.SalvageToDamage) {
		return false, nil
	}
	var next Frame
	found, err := r.scan(r.offset, func(f Frame) bool {
		next = f
		return true
	})
	if err != nil || !found {
		return false, err
	}
	r.offset, r.chain, r.err, r.bad, r.midway = next.Offset, next.Chain, nil, nil, false
	return true, nil
}
