package base

import (
	"fmt"
	"strconv"
	"strings"
)

// A FileNum names a table or a value file of one database. A database never
// reuses a number.
type FileNum uint64

const (
	tableSuffix = ".table"
	valueSuffix = ".values"
)

// ForeignFile is a file number that no database reaches: a file each second for a
// lifetime. Files with this number or a higher one are of another program. No database
// counts on from their numbers, because pointers have room for 32 bits.
const ForeignFile = FileNum(1 << 31)

// TableName returns the base name of the table with the given number.
func TableName(n FileNum) string { return fileName(n, tableSuffix) }

// ValueName returns the base name of the value file with the given number.
func ValueName(n FileNum) string { return fileName(n, valueSuffix) }

func fileName(n FileNum, suffix string) string { return fmt.Sprintf("%06d%s", uint64(n), suffix) }

// ParseTableName is the inverse of TableName. It reports false for any name
// that TableName does not return.
func ParseTableName(name string) (FileNum, bool) { return parseFileName(name, tableSuffix) }

// ParseValueName is the inverse of ValueName. It reports false for any name
// that ValueName does not return.
func ParseValueName(name string) (FileNum, bool) { return parseFileName(name, valueSuffix) }

func parseFileName(name, suffix string) (FileNum, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	return FileNum(n), err == nil && fileName(FileNum(n), suffix) == name
}
