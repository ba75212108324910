package stores

// A Batch is a list of writes for Apply. Its bytes are in one buffer, which the
// workload provides and reuses. Large loads use a buffer outside the Go heap. On
// the heap it would raise the garbage collector's goal, and with it the measured
// memory of the store.
type Batch struct {
	buf []byte
	ops []span
}

// An Op is one write. Its slices are valid until Reset.
type Op struct {
	Key, Value []byte
	Delete     bool
}

type span struct {
	start, keyEnd, end int
	isDelete           bool
}

// NewBatch returns an empty batch that stores keys and values in buf. It
// allocates on the heap only beyond the capacity of buf.
func NewBatch(buf []byte) *Batch { return &Batch{buf: buf[:0]} }

// Reset empties the batch.
func (b *Batch) Reset() { b.buf, b.ops = b.buf[:0], b.ops[:0] }

// Len returns the number of operations.
func (b *Batch) Len() int { return len(b.ops) }

// batchOverhead is the most that a store adds to an operation in its own batch, in bytes: a
// kind and two lengths, and a share of a header.
const batchOverhead = 24

// Bytes returns the size in bytes of the batch in the format of a store. Stores that copy it
// can reserve so much.
func (b *Batch) Bytes() int { return len(b.buf) + batchOverhead*len(b.ops) }

// At returns the i-th operation.
func (b *Batch) At(i int) Op {
	s := b.ops[i]
	return Op{
		Key:    b.buf[s.start:s.keyEnd:s.keyEnd],
		Value:  b.buf[s.keyEnd:s.end:s.end],
		Delete: s.isDelete,
	}
}

// Set appends a write of key and value.
func (b *Batch) Set(key, value []byte) { copy(b.Reserve(key, len(value)), value) }

// Reserve appends a write of key with a value of size bytes, and returns the
// value. The caller fills it before it adds the next operation.
func (b *Batch) Reserve(key []byte, size int) []byte {
	start := len(b.buf)
	b.buf = append(b.buf, key...)
	keyEnd := len(b.buf)
	b.buf = grow(b.buf, size)
	b.ops = append(b.ops, span{start: start, keyEnd: keyEnd, end: len(b.buf)})
	return b.buf[keyEnd:len(b.buf)]
}

// Delete appends the deletion of key, which need not exist.
func (b *Batch) Delete(key []byte) {
	start := len(b.buf)
	b.buf = append(b.buf, key...)
	b.ops = append(b.ops, span{start: start, keyEnd: len(b.buf), end: len(b.buf), isDelete: true})
}

// grow extends buf by n bytes of arbitrary content.
func grow(buf []byte, n int) []byte {
	if free := cap(buf) - len(buf); free >= n {
		return buf[:len(buf)+n]
	}
	return append(buf, make([]byte, n)...)
}
