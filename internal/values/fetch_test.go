package values

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// A Fetch verifies every record, unless its bytes are damaged. An Ahead then finds the values.
func TestFetch_VerifiesAllRecordsButDamagedOnes(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 5))
	values := append(randomValues(rng, 300), largeValues(rng)...)
	data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})
	r := mustOpen(t, data, testSalt)
	bad := 17
	data = bytes.Clone(data)
	data[values[bad].p.Offset+headerSize] ^= 1 // the first byte of the key
	damaged := mustOpen(t, data, testSalt)
	for _, c := range []struct {
		r   *Reader
		bad int
	}{{r, -1}, {damaged, bad}} {
		var f Fetch
		length := int64(0)
		order := rng.Perm(len(values))
		for _, i := range order {
			f.Add(c.r, &values[i].p)
			length += values[i].p.Length()
		}
		f.Add(c.r, &Pointer{}) // Get reports it
		if f.Bytes() != length {
			t.Errorf("%d bytes, want %d", f.Bytes(), length)
		}
		if f.Run(); f.Bytes() != 0 || len(f.found) != 0 {
			t.Errorf("it keeps %d records", len(f.found))
		}
		var a Ahead
		for i, s := range values {
			a.Begin()
			a.Add(c.r, &s.p, s.key, s.seq)
			missing := a.Load(0)
			got, ok := a.Get(0, nil)
			// A record can displace the mark of another.
			if i == c.bad && (ok || missing == 0) || ok && !bytes.Equal(got, s.value) {
				t.Fatalf("value %d was found: %t", i, ok)
			}
		}
		if n := verifiedOf(c.r, values); n < len(values)*9/10 {
			t.Errorf("%d of %d records are verified", n, len(values))
		}
		f.Add(c.r, &values[0].p)
		f.Run()
		if f.Add(c.r, &values[0].p); f.Bytes() != 0 {
			t.Error("it takes a record that is verified")
		}
		a.Clear()
	}
}

func TestNeighbours_OneRequestReadsRecordsWithSmallGaps(t *testing.T) {
	t.Parallel()
	one, two := &view{num: 1}, &view{num: 2}
	type request struct {
		of       int
		from, to int64
	}
	var got []request
	neighbours([]extent{{two, 0, 10}, {one, 30 + prefetchGap, 10}, {one, 10, 20}, {one, 41 + 2*prefetchGap, 5}, {one, 0, 10}},
		func(some []extent, from, to int64) { got = append(got, request{len(some), from, to}) })
	want := []request{{3, 0, 40 + prefetchGap}, {1, 41 + 2*prefetchGap, 46 + 2*prefetchGap}, {1, 0, 10}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
