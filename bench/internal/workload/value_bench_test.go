package workload

import (
	"fmt"
	"testing"
)

// BenchmarkCheckWhole measures the check of all bytes of a value in the processor's cache.
func BenchmarkCheckWhole(b *testing.B) {
	for _, size := range WholeSizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			v := Values{Size: size}
			value := make([]byte, size)
			v.Fill(value, 7, 1)
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := v.CheckWhole(value, 7, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
