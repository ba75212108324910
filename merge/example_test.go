package merge_test

import (
	"fmt"

	"github.com/stoatdb/stoat/merge"
)

// A function is one of this package.
type function interface {
	Merge(dst, key, existing []byte, operands [][]byte) ([]byte, error)
}

// merged returns the value that a database makes of operands.
func merged(f function, operands ...[]byte) []byte {
	value, err := f.Merge(nil, []byte("key"), nil, operands)
	if err != nil {
		panic(err)
	}
	return value
}

func ExampleAdd() {
	value := merged(merge.Counter, merge.Add(40), merge.Add(3), merge.Add(-1))
	fmt.Println(merge.Count(value))
	// Output: 42 <nil>
}

func ExampleInsert() {
	value := merged(merge.Set, merge.Insert([]byte("b"), []byte("a")), merge.Insert([]byte("c")), merge.Remove([]byte("b")))
	for item := range merge.Items(value) {
		fmt.Printf("%s ", item)
	}
	// Output: a c
}

func ExamplePush() {
	value := merged(merge.Last(2), merge.Push([]byte("a")), merge.Push([]byte("b")), merge.Push([]byte("c")))
	for item := range merge.Items(value) {
		fmt.Printf("%s ", item)
	}
	// Output: b c
}

func Example_append() {
	fmt.Printf("%s\n", merged(merge.Append, []byte("one "), []byte("two")))
	// Output: one two
}
