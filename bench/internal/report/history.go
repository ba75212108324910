package report

import (
	"fmt"
	"io"
	"slices"
)

// A historicTable holds published figures of earlier years, at another scale
// and on another machine. The report shows them as published and never compares
// them with the figures of a run.
type historicTable struct {
	Title string
	Rows  [][]string // the first is the head
}

const historyTitle = "For reference: 2017 to 2020"

const historyNote = "Badger's authors measured Badger and its peers in 2017, on an AWS i3.large with 2 cores, 15 GB of memory " +
	"and a local SSD of 475 GB (about 93 k random 4 KiB reads/s). They used Go 1.8, keys of 22 bytes of which 63 % exist, random values, " +
	"batches of 1,000, and GOMAXPROCS 128. The machine, the scale and the versions differ, so these figures show only an order of magnitude. " +
	"Do not compare them with the figures above."

var history = []historicTable{
	{Title: "Load: time, memory, size on disk", Rows: [][]string{
		{"", "128 B × 250 M", "1 KiB × 75 M", "16 KiB × 5 M"},
		{"LMDB", "7 h 24 min 45 s, 14.8 GB, 36 GB", "4 h 37 min 55 s, 14.6 GB, 92 GB (first try: map full)", "11 min 31 s, 10.9 GB, 61 GB"},
		{"BoltDB", "8 h 19 min 23 s, 14.8 GB, 37 GB", "3 h 36 min 12 s, 14.3 GB, 79 GB", "2 h 34 min 14 s, 8.7 GB, 55 GB"},
		{"Badger", "42 min 18 s, 11.4 GB, 49 GB (out of memory before tuning)", "15 min 31 s, 10.1 GB, 77 GB", "6 min 52 s, 1.3 GB, 77 GB"},
		{"RocksDB 5.1", "39 min 11 s, 0.6 GB, 24 GB", "", ""},
		{"Badger, earlier build, beside RocksDB", "45 min 27 s, 14.7 GB, 38 GB of which 5.8 GB tree", "", ""},
	}},
	{Title: "Load: file system output, 10⁹ blocks of 512 bytes", Rows: [][]string{
		{"", "128 B × 250 M", "1 KiB × 75 M", "16 KiB × 5 M"},
		{"LMDB", "2.24", "1.82", "0.25"},
		{"BoltDB", "3.06", "1.61", "0.71"},
		{"Badger", "0.24", "0.18", "0.16"},
		{"RocksDB", "0.59", "", ""},
	}},
	{Title: "Random read, ns per operation, parallel", Rows: [][]string{
		{"", "128 B", "1 KiB", "16 KiB"},
		{"LMDB, no read-ahead", "7,858", "10,710", "2,015"},
		{"BoltDB", "10,899", "12,205", "2,126"},
		{"Badger", "12,517", "11,185", "3,845 (22,000 before values were mapped)"},
		{"RocksDB, beside Badger in a run of its own", "126,855 against 36,297", "", ""},
	}},
	{Title: "Iterate 2 M keys in order, seconds, first run / repeated", Rows: [][]string{
		{"", "128 B", "1 KiB", "16 KiB"},
		{"LMDB", "13.8 / 0.72 (no read-ahead), 19.9 / 1.1", "105 / 2.2", "488 to 2,746"},
		{"BoltDB", "12.9 / 0.26", "89 / 0.57", "930 to 1,329"},
		{"Badger, with values", "20.6 to 21.5", "23.2 / 4.2", "84.7 to 93.9"},
		{"Badger, keys only", "0.69", "0.67", "0.79"},
		{"RocksDB", "5.8; Badger beside it: keys 0.71, values 75.8", "", ""},
	}},
	{Title: "One mapped table of 105,843,444 bytes (Badger)", Rows: [][]string{
		{"", "time", "rate"},
		{"read through", "0.344 to 0.352 s", "about 287 MB/s"},
		{"read and build another in memory", "2.34 to 2.36 s", "about 43 MB/s"},
		{"read five merged tables of that size in total", "1.30 to 1.32 s", "about 76 MB/s"},
	}},
	{Title: "2019: open 2 billion sorted pairs, 380 GB, 1,028 tables, nothing cached (Badger)", Rows: [][]string{
		{"", "time"},
		{"open", "23.9 s"},
	}},
	{Title: "2020: a terabyte (Badger), 1 M sampled keys read at random", Rows: [][]string{
		{"", "836 GB, not compressed, no caches, 6,615 tables", "844 GB, compressed, index cache 500 MB, block cache 1 GB, 21,040 tables"},
		{"tables opened in", "40 s", "1 min 50 s"},
		{"reads/s after 1, 5, 10 min", "239,710 / 257,659 / 260,129", "213,667 / 226,634 / 224,546"},
		{"heap", "9.4 to 12.8 GB", "1.2 GB"},
		{"full scan", "2.5 billion entries, 400 GB, 56 min 57 s, 731,635 entries/s", "8.28 billion entries, 1.2 TB, 4 h 24 min, 522,604 entries/s"},
	}},
}

func markdownHistory(w io.Writer) {
	fmt.Fprintf(w, "## %s\n\n%s\n\n", historyTitle, historyNote)
	for _, t := range history {
		fmt.Fprintf(w, "### %s\n\n", t.Title)
		for i, row := range t.Rows {
			markdownRow(w, row)
			if i == 0 {
				markdownRow(w, slices.Repeat([]string{"---"}, len(row)))
			}
		}
		fmt.Fprintln(w)
	}
}
