package report

// reasonOf returns why another store is ahead in a row, in two lines, as far as
// that lies in the design and not in a day. It is empty where nobody has said.
func reasonOf(row Row) string {
	if reason, ok := reasons[reasonKey{row.Workload, row.Metric, row.Data}]; ok {
		return reason
	}
	return reasons[reasonKey{row.Workload, row.Metric, ""}]
}

// A reasonKey names a row, or, without a dataset, those of all sizes of values
// that have no reason of their own.
type reasonKey struct{ workload, metric, data string }

const (
	unmergedReason = "Until the merges that the load left are done, a read looks into each run of the tree, and verifies each part of a file that it is the first to touch. " +
		"A B+tree is in order at any time, for tens of bytes written for each of the user's."
	mixedGetReason = "Four busy goroutines and the merges share two processors, and a read waits for its turn. " +
		"The writers of LMDB and bbolt stand in line for one lock, asleep, and leave the processors to the readers."
	mixedPutReason = "A put waits for a processor while flushes and merges have both. " +
		"Stores that do no work in the background pay more for each put, and the same for all."
	slowBatchReason = "stoat merges and collects while it loads, and slows its writers down rather than let debt and garbage grow. " +
		"Stores that leave that for later make nobody wait for it now."
	mappedReason = "Tables and value files are read through mappings, and what reads and merges have touched counts. These are clean pages that the system takes back; " +
		"stores that copy blocks into a cache of their own show them as anonymous memory."
	memtableReason = "Recent writes are held in memtables, within one budget of 256 MiB, so that they are written in order and few times. " +
		"LMDB and bbolt hold the pages of one transaction, and leave the rest to the page cache."
	twiceReason = "A value is written to the log and once more by the flush; merges and the collection that keeps space near what is live write a part again. " +
		"Stores that keep their garbage, or are not yet done with their merges, have written less."
	pointerReason = "A value of 512 B or more lies in a file of values: a read finds its pointer in the tree, and then the value, which is one more access to memory that no cache holds. " +
		"LMDB, bbolt and Pebble have it beside its key."
	garbageReason = "At rest 5 % of garbage is left lying, because to collect it costs more writes than it frees; " +
		"others end lower where they are asked to merge everything at once."
	coldReason = "Nothing is cached at the start, so that a read fetches parts of a table, its index and its keys, before the value, one after the other. " +
		"A B+tree of 4 KiB pages has its inner pages in memory after a few hundred reads."
	aheadReason   = "Segments of the log are written ahead, so that a commit need not wait for the file system to note a new length: those bytes count twice."
	slowestReason = "Who meets the change to a new segment, or a sync that the device takes long for, waits, and all commits of that group with it."
	idleReason    = "An empty database keeps a manifest and the first segment of its log, written ahead: 0.4 MB, whatever it held."
)

var reasons = map[reasonKey]string{
	{"populate", "load_batch_p99_ms", ""}:             slowBatchReason,
	{"populate", "load_batch_max_ms", ""}:             slowBatchReason,
	{"populate", "settled_written_per_user_byte", ""}: twiceReason,
	{"populate", "settled_written_per_user_byte", "16k"}: "Values of 16 KiB are written once. A third of them are overwritten in the load, and what it costs to collect those counts here; " +
		"Badger leaves them until it is told to collect.",
	{"populate", "load_peak_anon_mb", ""}: memtableReason,
	{"populate", "load_peak_file_mb", ""}: mappedReason,
	{"populate", "settle_s", ""}: "These seconds are for the merges that a load leaves for later. " +
		"A store that is done at once has paid for it while loading, or leaves it undone.",
	{"populate", "fresh_get_1_ns", ""}:  unmergedReason,
	{"populate", "fresh_get_16_ns", ""}: unmergedReason,
	{"populate", "fresh_scan_ns", ""}:   unmergedReason,
	{"populate", "fresh_seek_1_ns", ""}: unmergedReason,
	{"populate", "settled_cpu_s", "16k"}: "A third of the values are overwritten in the load, and collecting them is among these seconds; " +
		"Badger leaves them until it is told to collect.",
	{"open", "open_ms", ""}: "LMDB maps its file, and is open. " +
		"stoat reads and verifies its manifest, opens its files, and looks what the log holds beyond the last flush.",
	{"open", "first_get_ms", ""}: "The first read of a part of a file fetches it and verifies its checksum. " +
		"LMDB and bbolt verify nothing, and find their pages in the mapping.",
	{"open", "close_ms", ""}: "LMDB takes its mapping away, and is closed. " +
		"stoat ends its background work in order, and makes durable what is not yet.",
	{"get", "get_1_ns", "1k"}:                             pointerReason,
	{"get", "get_16_ns", "1k"}:                            pointerReason,
	{"get", "hit_1_ns", "1k"}:                             pointerReason,
	{"get", "hit_16_ns", "1k"}:                            pointerReason,
	{"get", "whole_1_ns", "1k"}:                           pointerReason,
	{"get", "whole_16_ns", "1k"}:                          pointerReason,
	{"scan", "scan_ns", "1k"}:                             pointerReason,
	{"scan", "scan_whole_ns", "1k"}:                       pointerReason,
	{"seek", "seek_1_ns", "1k"}:                           pointerReason,
	{"seek", "seek_16_ns", "1k"}:                          pointerReason,
	{"get", "get_1_ns", "16k"}:                            pointerReason,
	{"get", "hit_1_ns", "16k"}:                            pointerReason,
	{"get", "hit_16_ns", "16k"}:                           pointerReason,
	{"get", "get_1_p99_us", "16k"}:                        pointerReason,
	{"scan", "scan_ns", "16k"}:                            pointerReason,
	{"scan", "scan_whole_ns", "16k"}:                      pointerReason,
	{"seek", "seek_1_ns", "16k"}:                          pointerReason,
	{"churn", "peak_anon_mb", ""}:                         memtableReason,
	{"churn", "overwrite_batch_p99_ms", ""}:               slowBatchReason,
	{"churn", "overwrite_batch_max_ms", ""}:               slowBatchReason,
	{"churn", "total_s", ""}:                              "The garbage is collected in this time, to 14 % of all values while writers are slowed down for it, and to 5 % when they have ended. Stores that let it lie, or grow to three times what is live meanwhile, write less.",
	{"churn", "written_per_user_byte", ""}:                "The less garbage is tolerated, the more is rewritten. stoat collects from 18 % of garbage on while others write, from 14 % when it slows them down for that, and from 5 % when nobody writes.",
	{"churn", "space_idle_per_live_byte", ""}:             garbageReason,
	{"churn", "space_end_per_live_byte", ""}:              garbageReason,
	{"commit", "commit_1_written_per_user_byte", ""}:      aheadReason,
	{"commit", "commit_64_written_per_user_byte", ""}:     aheadReason,
	{"commit", "commit_1_p99_us", ""}:                     slowestReason,
	{"commit", "commit_16_p99_us", ""}:                    slowestReason,
	{"commit", "commit_64_p99_us", ""}:                    slowestReason,
	{"mixed-50", "mixed_get_p99_us", ""}:                  mixedGetReason,
	{"mixed-50", "mixed_get_p999_us", ""}:                 mixedGetReason,
	{"mixed-50", "mixed_get_p999_slowest_us", ""}:         mixedGetReason,
	{"mixed-50", "mixed_get_max_us", ""}:                  mixedGetReason,
	{"mixed-50", "mixed_put_p999_us", ""}:                 mixedPutReason,
	{"mixed-50", "mixed_put_p999_slowest_us", ""}:         mixedPutReason,
	{"mixed-50", "mixed_put_max_us", ""}:                  mixedPutReason,
	{"mixed-95", "mixed_get_p999_us", ""}:                 mixedGetReason,
	{"mixed-95", "mixed_put_p999_us", ""}:                 mixedPutReason,
	{"limited-load", "settled_written_per_user_byte", ""}: twiceReason,
	{"limited-read", "cold_1_per_s", ""}:                  coldReason,
	{"limited-read", "cold_1_p99_us", ""}:                 coldReason,
	{"limited-load", "load_peak_anon_mb", ""}:             memtableReason,
	{"sorted", "settled_written_per_user_byte", ""}:       twiceReason,
	{"json", "load_keys_per_s", ""}:                       "The default compresses nothing, and writes the whole text; stores that compress write a third of it.",
	{"json", "size_per_live_byte", ""}:                    "The default compresses nothing. CompressionFast is one option away; the column of stoat-fast says what it gains.",
	{"delete", "space_loaded_mb", ""}:                     garbageReason,
	{"delete", "space_idle_mb", ""}:                       idleReason,
	{"delete", "space_collected_mb", ""}:                  idleReason,
	{"delete", "allocated_mb", ""}:                        idleReason,
}
