package base

import (
	"math"
	"strings"
	"testing"
)

func TestFileName_TellsNumberAndKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		num           FileNum
		table, values string
	}{
		{0, "000000.table", "000000.values"},
		{7, "000007.table", "000007.values"},
		{999999, "999999.table", "999999.values"},
		{1234567, "1234567.table", "1234567.values"},
		{math.MaxInt64, "9223372036854775807.table", "9223372036854775807.values"},
	} {
		if got := TableName(c.num); got != c.table {
			t.Errorf("table %d: %s, want %s", c.num, got, c.table)
		}
		if got := ValueName(c.num); got != c.values {
			t.Errorf("value file %d: %s, want %s", c.num, got, c.values)
		}
		if num, ok := ParseTableName(c.table); !ok || num != c.num {
			t.Errorf("%s: %d, %v", c.table, num, ok)
		}
		if num, ok := ParseValueName(c.values); !ok || num != c.num {
			t.Errorf("%s: %d, %v", c.values, num, ok)
		}
	}
}

func TestFileName_RefusesOtherNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", ".table", ".values", "000007", "000007.", "7.table", "0000007.table", "+00007.table", "-00007.table",
		" 00007.table", "0x0007.table", "00000a.table", "000007.table.tmp", "000007.TABLE", "000007.log",
		"1_00007.values", "9223372036854775808.table", "99999999999999999999.values", "MANIFEST-000007",
	} {
		if num, ok := ParseTableName(name); ok {
			t.Errorf("%q is table %d", name, num)
		}
		if num, ok := ParseValueName(name); ok {
			t.Errorf("%q is value file %d", name, num)
		}
	}
	if _, ok := ParseTableName(ValueName(7)); ok {
		t.Error("a value file is a table")
	}
	if _, ok := ParseValueName(TableName(7)); ok {
		t.Error("a table is a value file")
	}
}

// FuzzFileName parses any name. The parser refuses it, or the name is the only
// one with its number.
func FuzzFileName(f *testing.F) {
	for _, name := range []string{TableName(1), ValueName(1 << 40), "000001.log", "1.table", "٠٠٠٠٠١.table"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		num, isTable := ParseTableName(name)
		if isTable && TableName(num) != name {
			t.Fatalf("%q is table %d, which is %q", name, num, TableName(num))
		}
		num, isValues := ParseValueName(name)
		if isValues && ValueName(num) != name {
			t.Fatalf("%q is value file %d, which is %q", name, num, ValueName(num))
		}
		if isTable && isValues {
			t.Fatalf("%q is both", name)
		}
		if (isTable || isValues) && strings.ContainsAny(name, "/\\") {
			t.Fatalf("%q has a directory", name)
		}
	})
}
