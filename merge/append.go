package merge

// Append appends operands to the value, one after the other, with nothing between them.
var Append appender

type appender struct{}

// Name implements stoat.MergeFunction.
func (appender) Name() string { return "stoat.append" }

// Merge implements stoat.MergeFunction.
func (appender) Merge(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
	return concat(append(dst, existing...), operands), nil
}

// Combine implements stoat.OperandCombiner.
func (appender) Combine(dst, _ []byte, operands [][]byte) ([]byte, error) {
	return concat(dst, operands), nil
}

func concat(dst []byte, operands [][]byte) []byte {
	for _, o := range operands {
		dst = append(dst, o...)
	}
	return dst
}
