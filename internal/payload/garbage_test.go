package payload

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/hostile"
)

// Decode checks lengths and counts against the rest of the transaction before it
// allocates.
func TestGarbage_LengthsAllocateLittle(t *testing.T) {
	b := Header{Seq: 7, TimeMs: 9, Count: 4}.AppendTo(nil)
	b = append(AppendEntryHead(b, []byte("key"), 5, base.Meta{Kind: base.KindSet, ExpiresAt: 12, User: 3}), "value"...)
	b = append(AppendEntryHead(b, []byte("lo"), 2, base.Meta{Kind: base.KindDeleteRange}), "or"...)
	b = AppendEntryHead(b, []byte("from"), 0, base.Meta{Kind: base.KindDeleteRange})
	b = append(AppendEntryHead(b, []byte("last"), 40, base.Meta{Kind: base.KindSet}), make([]byte, 40)...)
	for _, length := range []uint64{200, 1 << 20, math.MaxUint32, math.MaxInt64, math.MaxUint64} {
		for at := range b {
			varint := slices.Concat(b[:at], binary.AppendUvarint(nil, length), b[at+1:])
			fixed := slices.Clone(b)
			copy(fixed[at:], binary.LittleEndian.AppendUint64(nil, length))
			for _, spoiled := range [][]byte{varint, fixed} {
				n := hostile.Allocated(func() {
					_ = Decode(spoiled, func(Header) error { return nil }, func(key, value []byte, _ base.Meta) error {
						if len(key)+len(value) > len(spoiled) {
							t.Errorf("byte %d: an entry of %d bytes", at, len(key)+len(value))
						}
						return nil
					}) // some are still valid
				})
				if n > 64<<10 {
					t.Errorf("byte %d of %x: %d bytes are allocated", at, spoiled, n)
				}
			}
		}
	}
}
