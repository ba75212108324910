package values

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/vfs"
)

// benchBytes is the size of the measured files in bytes.
const benchBytes = 64 << 20

func benchValues(size int) []stored {
	value := noise.Bytes(rand.New(rand.NewPCG(1, 1)), size)
	out := make([]stored, benchBytes/size)
	for i := range out {
		out[i] = stored{key: fmt.Appendf(nil, "vsz=%05d-k=%010d", size, i), seq: base.SeqNum(i + 1), value: value}
	}
	return out
}

// benchFile writes values to a file of the operating system and opens it.
func benchFile(b *testing.B, values []stored) *Reader { return benchFileOf(b, testNum, values) }

// benchFileOf is benchFile for a file with that number.
func benchFileOf(b *testing.B, num base.FileNum, values []stored) *Reader {
	fs := vfs.OS()
	f, err := fs.Create(fs.Join(b.TempDir(), "w"), vfs.CatValue)
	if err != nil {
		b.Fatal(err)
	}
	props := benchWrite(b, f, num, values)
	r, err := Open(f, props.Size, num, testSalt, "w")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	})
	return r
}

func benchWrite(b *testing.B, f vfs.File, num base.FileNum, values []stored) Properties {
	w, err := NewWriter(f, WriterOptions{Num: num, Salt: testSalt})
	if err != nil {
		b.Fatal(err)
	}
	for i := range values {
		if values[i].p, err = w.Append(values[i].key, values[i].seq, values[i].value); err != nil {
			b.Fatal(err)
		}
	}
	props, err := w.Finish()
	if err != nil {
		b.Fatal(err)
	}
	return props
}

// BenchmarkBuild writes a file of 64 MiB, durably.
func BenchmarkBuild(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			values := benchValues(size)
			fs, dir := vfs.OS(), b.TempDir()
			b.SetBytes(benchBytes)
			for i := 0; b.Loop(); i++ {
				name := fs.Join(dir, fmt.Sprint(i))
				f, err := fs.Create(name, vfs.CatValue)
				if err != nil {
					b.Fatal(err)
				}
				benchWrite(b, f, testNum, values)
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
				if err := fs.Remove(name); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkGet reads verified values and touches their ends: at random, in file order,
// and at random from a rewritten file.
func BenchmarkGet(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10} {
		values := benchValues(size)
		r := benchFile(b, values)
		shuffled := slices.Clone(values)
		rand.New(rand.NewPCG(2, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		b.Run(fmt.Sprintf("%d/random", size), func(b *testing.B) { benchGet(b, r, shuffled) })
		b.Run(fmt.Sprintf("%d/sequential", size), func(b *testing.B) { benchGet(b, r, values) })
		b.Run(fmt.Sprintf("%d/cached", size), func(b *testing.B) { benchGet(b, r, shuffled[:64]) })
		live := shuffled[:len(shuffled)*3/4]
		slices.SortFunc(live, func(x, y stored) int { return slices.Compare(x.key, y.key) })
		rewritten := benchRewrite(b, r, live)
		rand.New(rand.NewPCG(2, 2)).Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
		b.Run(fmt.Sprintf("%d/rewritten", size), func(b *testing.B) { benchGet(b, rewritten, live) })
	}
}

func benchRewrite(b *testing.B, r *Reader, live []stored) *Reader {
	fs := vfs.OS()
	f, err := fs.Create(fs.Join(b.TempDir(), "w"), vfs.CatValue)
	if err != nil {
		b.Fatal(err)
	}
	props, err := Rewrite(RewriteJob{Source: r, Out: f, Salt: 1, Live: liveOf(live)})
	if err != nil {
		b.Fatal(err)
	}
	out, err := Open(f, props.Size, testNum, 1, "w")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := out.Close(); err != nil {
			b.Error(err)
		}
	})
	return out
}

func benchGet(b *testing.B, r *Reader, values []stored) {
	for _, s := range values { // verify
		if _, err := r.Get(s.p, s.key, s.seq, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	sum, i := 0, 0
	for b.Loop() {
		s := &values[i]
		v, err := r.Get(s.p, s.key, s.seq, nil)
		if err != nil {
			b.Fatal(err)
		}
		sum += int(v[0]) + int(v[len(v)-1])
		if i++; i == len(values) {
			i = 0
		}
	}
	if sum < 0 {
		b.Fatal("no value")
	}
}

// BenchmarkAhead reads verified values together, in file order, and touches their ends. Records of
// large commits and of ingests have no version.
func BenchmarkAhead(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10} {
		for _, versions := range []bool{true, false} {
			values := benchValues(size)
			for i := range values {
				if !versions {
					values[i].seq = 0
				}
			}
			r := benchFile(b, values)
			for i := range values {
				values[i].seq = base.SeqNum(i + 1)
			}
			b.Run(fmt.Sprintf("%d/versions=%t", size, versions), func(b *testing.B) { benchAhead(b, r, values) })
		}
	}
}

func benchAhead(b *testing.B, r *Reader, values []stored) {
	for _, s := range values { // verify
		if _, err := r.Get(s.p, s.key, s.seq, nil); err != nil {
			b.Fatal(err)
		}
	}
	var a Ahead
	sum, at := 0, 0
	for done := 0; done < b.N; done += AheadSize {
		group := values[at : at+AheadSize]
		a.Begin()
		for i := range group {
			a.Add(r, &group[i].p, group[i].key, group[i].seq)
		}
		a.LoadScan(0)
		for i := range group {
			v, ok := a.Get(i, nil)
			if !ok { // as an iterator does
				var err error
				if v, err = r.Get(group[i].p, group[i].key, group[i].seq, nil); err != nil {
					b.Fatal(err)
				}
			}
			sum += int(v[0]) + int(v[len(v)-1])
		}
		if at += AheadSize; at+AheadSize > len(values) {
			at = 0
		}
	}
	if sum < 0 {
		b.Fatal("no value")
	}
}

// BenchmarkFirstGet reads and verifies values in the page cache, in file order.
func BenchmarkFirstGet(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10} {
		values := benchValues(size)
		r := benchFile(b, values)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(size))
			i := 0
			for b.Loop() {
				if i == len(values) {
					if err := r.DropPages(); err != nil {
						b.Fatal(err)
					}
					i = 0
				}
				if _, err := r.Get(values[i].p, values[i].key, values[i].seq, nil); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// BenchmarkFirstScan reads the values of several files in turn, as a scan does. The memory of
// the system has the files, but none of their values is verified.
func BenchmarkFirstScan(b *testing.B) {
	for _, files := range []int{1, 24} {
		for _, size := range []int{1 << 10, 16 << 10} {
			b.Run(fmt.Sprintf("%d-files/%d", files, size), func(b *testing.B) {
				all := make([]filed, benchBytes/size/files*files)
				readers := make([]*Reader, files)
				values := benchValues(size)
				for n := range readers {
					var some []stored
					for i := n; i < len(all); i += files {
						some = append(some, values[i])
					}
					readers[n] = benchFileOf(b, base.FileNum(n+1), some)
					for k, s := range some {
						all[n+k*files] = filed{s, readers[n]}
					}
				}
				for b.Loop() {
					benchScan(b, all)
					b.StopTimer()
					for _, r := range readers {
						if err := r.DropPages(); err != nil {
							b.Fatal(err)
						}
					}
					b.StartTimer()
				}
				b.ReportMetric(float64(b.Elapsed())/float64(b.N*len(all)), "ns/value")
			})
		}
	}
}

// benchScan reads the ends of all values, in rounds.
func benchScan(b *testing.B, all []filed) {
	var a Ahead
	defer a.Clear()
	const length = 32
	for ; len(all) > 0; all = all[min(length, len(all)):] {
		round := all[:min(length, len(all))]
		a.Begin()
		for i := range round {
			a.Add(round[i].r, &round[i].p, round[i].key, round[i].seq)
		}
		a.LoadScan(length)
		for i := range round {
			s := &round[i]
			v, ok := a.Get(i, nil)
			if !ok {
				var err error
				if v, err = s.r.Get(s.p, s.key, s.seq, nil); err != nil {
					b.Fatal(err)
				}
			}
			if v[0] != s.value[0] || v[len(v)-1] != s.value[len(v)-1] {
				b.Fatal("wrong value")
			}
		}
	}
}

// BenchmarkRewrite collects a file with every fourth value dead.
func BenchmarkRewrite(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10} {
		values := benchValues(size)
		r := benchFile(b, values)
		live := make([]stored, 0, len(values))
		for i, s := range values {
			if i%4 != 0 {
				live = append(live, s)
			}
		}
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			fs, dir := vfs.OS(), b.TempDir()
			b.SetBytes(int64(len(live) * size))
			for i := 0; b.Loop(); i++ {
				name := fs.Join(dir, fmt.Sprint(i))
				f, err := fs.Create(name, vfs.CatValue)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := Rewrite(RewriteJob{Source: r, Out: f, Salt: 1, Live: liveOf(live)}); err != nil {
					b.Fatal(err)
				}
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
				if err := fs.Remove(name); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
