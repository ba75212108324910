package report

// reasonOf returns why another store does better in a row, or why stoat does not reach the
// target, as far as the cause is in the design or the machine. It is empty where no reason is
// recorded.
func reasonOf(row Row) string {
	if reason, ok := reasons[reasonKey{row.Workload, row.Metric, row.Data}]; ok {
		return reason
	}
	return reasons[reasonKey{row.Workload, row.Metric, ""}]
}

// A reasonKey names a row. An empty dataset stands for every dataset that has
// no reason of its own.
type reasonKey struct{ workload, metric, data string }

const (
	unmergedReason = "The load leaves runs that are not compacted yet. Until they are, a read searches each run and verifies each part of a file at its first use. " +
		"A B+tree is always in order, and writes more for that. For each user byte of values of 128 B, LMDB wrote 39 bytes, with a transaction for each batch of 1,000 keys. " +
		"bbolt wrote 26, with several batches in a transaction."
	manyRunsReason = "The load leaves 12 or 13 runs with 1.6 versions of a key, which each scan merges until a compaction has. That begins at once and takes 0.6 s, about as long as four scans (decision 0050). " +
		"The figures of decision 0019 have the experiments: a loser tree, values loaded together, blocks touched ahead, and no compactions beside the scans."
	mixedGetReason = "Four busy goroutines and the compactions share two processors, so a read waits for its turn. " +
		"The writers of LMDB and bbolt sleep on one lock and leave the processors to the readers. " +
		"bbolt's Batch also lets puts wait for each other, up to 10 ms, to share a transaction. Meanwhile fewer goroutines read."
	mixedPutReason = "A slow put mostly waits for a processor: of 588 slow puts, 406 were runnable. Slices of the system take 3 ms, and background jobs use both processors. " +
		"The figures of decisions 0044 and 0046 have the traces and what did not help."
	longestPutReason = "A stall of the device also stops commits that do not wait for it, once the prepared segments of the log are full. Decision 0046 has the figures."
	slowBatchReason  = "stoat compacts and collects garbage during the load, and throttles its writers to bound debt and garbage. " +
		"Stores that postpone this work do not delay their writers now."
	mappedReason = "stoat reads tables and value files through mappings, and the pages that reads and compactions touched count. They are clean pages that the system can take back. " +
		"Stores that copy blocks into their own cache show them as anonymous memory."
	memtableReason = "stoat holds recent writes in memtables, within one budget of 256 MiB. " +
		"LMDB and bbolt hold the pages of one transaction and leave the rest to the page cache."
	waitingReason = "Each of eight transactions holds its 16 MB until it commits: 131 MB in all. Badger splits them, so its batches are not atomic."
	growingReason = "Memtables take up to 256 MiB. More background jobs and more open tables add to them as the data grows."
	flushReason   = "stoat writes a value to the log and again in the flush. Compaction and garbage collection write a part once more. "
	keepingReason = "Stores that keep their garbage, or have compactions left to do, have written less."
	twiceReason   = flushReason + "The benchmark scans after the load, so stoat writes all values again in the order of their keys, once it is at rest (decision 0049). " + keepingReason
	leftReason    = "These seconds finish the compactions that a load leaves for later. " +
		"A store that needs none has paid for it during the load, or leaves it undone."
	pointerReason = "stoat stores a value of 512 B or more in a value file. A read finds the pointer in the tree and then fetches the value: one more access to memory that no processor cache holds. " +
		"LMDB and bbolt store the value beside its key."
	largeGetReason = "stoat reads the pointer to a value in the tree and then fetches the value. LMDB does the same, but its key leads to a page number, and it verifies nothing. bbolt has the value beside its key."
	verifyReason   = "A new process maps each part of a file and verifies its checksum at first use. bbolt and LMDB verify nothing, and their ends touch few bytes of a value. " +
		"bbolt reads all pages when it opens a database without a stored freelist, before this scan begins."
	garbageReason = "At rest stoat leaves 5 % of garbage, because collecting it costs more writes than it frees. A value file repeats the key and has a header for each value: 6 % at 1 KiB. " +
		"Other stores end lower when the benchmark asks them to compact everything."
	headersReason = "A value file repeats the key and has a header for each value. That is 6 % at 1 KiB, and lets a collection find the key of each value."
	coldReason    = "Nothing is cached at the start. A read fetches the index of a table, then its keys, then the value, until the table is in memory. The figures of decision 0012 have what it gains to load such tables, which stoat now does. " +
		"A B+tree of 4 KiB pages has its inner pages in memory after a few hundred reads."
	coldSeekReason = "stoat keeps values of 512 B or more in value files, in the order of their commits until iterators have read them. A seek and ten entries may take ten reads of the device. " +
		"RocksDB holds values beside their keys, in a block or two. That is probably the cause: with separated values it is slower than stoat. Pebble with separated values is faster."
	coldManyReason = "Badger gives the system no advice, so it reads 8 MiB ahead for each fault on this device. A small file is in memory after some faults. " +
		"bbolt asks for no read-ahead."
	aheadReason   = "stoat writes log segments ahead, so that a commit need not wait for the file system to record a new length. Those bytes count twice."
	slowestReason = "The slowest hundredth of one goroutine is that of one sync of the device. stoat overwrites what was written ahead, and Pebble and RocksDB their old log files. " +
		"Other peers append. The limits name both."
	queuedReason = "A commit may wait for the sync before its own, and then for its own. What else delays the slowest hundredth was not found out."
	seekReason   = "A seek and its entries wait for memory again and again: each of fences, directory, keys and values says where the next is. " +
		"The limits name the time of one such access. The figures of decision 0019 have the experiments. Longer first batches make short seeks slower, and prefetch instructions gained little."
	scanReason = "The harness takes a third of stoat's figure for keys alone, see the limits, and counts in both. " +
		"The figures of decision 0019 have what made scans faster, and what did not."
	allReason   = "All does less for each entry than Next. Both passes spend most of their time on the values, and their ratio varies by a tenth between repeats."
	largeReason = "After an open, stoat reads every byte of a value to verify it, before it shows one. The limits name the speed of memory. Both processors already share this work (decision 0043). " +
		"bbolt and LMDB verify nothing. bbolt reads all pages when it opens a database without a stored freelist, before this scan begins."
	loadReason   = "Log, flush and collection write two to three bytes for each user byte, through the page cache. The limits name what the device takes that way, and directly."
	commitReason = "One goroutine waits for one sync of a log that was written ahead, which takes nearly all of the time. RocksDB recycles its log files and does the same. So both come close to the syncs of an overwrite that the device takes, one after the other; the limits name them. " +
		"Pebble overwrites old log files after its first flushes. Other peers append to a file. " +
		"With 16 goroutines, one sync serves all of them (decision 0048). With 64, two processors make the groups while the device syncs. The figures of decision 0039 have the experiments that gained nothing. " +
		"These are one direct write in place of write and sync, three groups in flight, and write-back that starts before the sync."
	counterReason   = "While updates of one key take turns, one group is in flight, so the sync bounds the rate. bbolt's Batch does the same with one transaction for all. The figures of decision 0039 have the experiments."
	mixedRateReason = "Puts wait for processors. In two fifths of the time a background job waits for the disk. Meanwhile it keeps its processor of the Go scheduler, so a quarter of both processors is idle. " +
		"The figures of decision 0044 have three experiments that gained too little: syncs by kernel AIO, a busy monitor, earlier collection."
	besideReason = "The writer's flushes and merges share two processors with the reader. A reader that loses its processor waits for the time slice of another thread, 3 ms. " +
		"Runs of the memtable cost a seek 2 to 4 µs. Jobs yield every 256 entries, which had no effect beyond the noise."
	throughCacheReason = "stoat writes through the page cache, so that reads find the values in memory. The limits name what the device takes that way, and directly. " +
		"Decision 0014 has the experiment with direct writes: the first read of a value then takes 60 µs instead of 1 µs."
	overwrittenReason = throughCacheReason + " The load overwrites a third of the values. A database that grows leaves most of that garbage to the time after the load. Decision 0008 has the experiment with holes in place of collected files."
	randomReason      = "Neighbours in the order of keys lie in the files of different commits. Reading whole values of 16 KiB from sixty sorted files takes 1.4 times as long as from one, even from four files 1.3 times (figures of decision 0049). " +
		"The harness compares all bytes, see the limits. Decision 0019 has the experiments with pages touched ahead."
	streamReason  = "The target was set before iterators read ahead. Now an iterator asks for the values of many keys at once. It gets three quarters of what a parallel read gets from the same device."
	peakReason    = "Beside writers, stoat collects so that garbage stays below a fixed share. A file that is being rewritten exists twice until the new file is durable, and the log counts as well."
	distantReason = "7.5 GB of mapped files have page tables of 15 MB, so an access to memory often waits for an entry of these as well. That is the probable cause; this machine shows no counters of the processor, and has no huge pages for files. " +
		"Peers slow down more: six times for Pebble, three times for RocksDB."
	linkReason  = "Pebble and RocksDB link a file into the database, because it is a table with the settings of that database. stoat reads the file, verifies it and writes tables of its own, so a file fits every database."
	queueReason = "LMDB removes a key from its page. stoat writes a deletion, which later pops pass. A pop spends a third each on search, iterator and commit (figures of decision 0039)."
	idleReason  = "An empty database keeps a manifest and the first log segment, which stoat writes ahead: 0.4 MB in all."
)

// reasons holds the recorded reasons by row.
var reasons = map[reasonKey]string{
	{"scale", "settled_written_per_user_byte", ""}: "An idle database merges what a load left in level 0 into the last level, which also writes bytes of that level again. " +
		"RocksDB leaves a few files in its level 0.",
	{"scale", "load_peak_anon_mb", "128-20m"}: growingReason,
	{"scale", "load_peak_anon_mb", "128-50m"}: growingReason,
	{"scale", "get_1_ns", ""}:                 distantReason,
	{"scale", "get_16_ns", ""}:                distantReason,
	{"scale", "load_keys_per_s", "128-50m"}: "More data in the last level means more bytes that each merge writes again. " +
		"From 5 M to 50 M keys, stoat becomes 2.1 times slower, Pebble 1.6 times and RocksDB 1.5 times. From 1 M keys it is 2.1 times for stoat and Pebble, and 1.5 times for RocksDB.",
	{"populate", "load_batch_p99_ms", ""}:             slowBatchReason,
	{"populate", "load_batch_max_ms", ""}:             slowBatchReason,
	{"populate", "settled_written_per_user_byte", ""}: twiceReason,
	{"populate", "settled_written_per_user_byte", "16k"}: "stoat writes values of 16 KiB once. The benchmark scans after the load, so stoat writes all values again in the order of their keys, once it is at rest (decision 0049). " +
		"Badger keeps them until it is told to collect.",
	{"populate", "load_peak_anon_mb", ""}:                memtableReason,
	{"populate", "load_peak_anon_mb", "16k"}:             waitingReason,
	{"populate", "size_per_live_byte", "1k"}:             garbageReason,
	{"populate", "allocated_mb", "1k"}:                   garbageReason,
	{"populate", "load_batch_max_ms", "128"}:             "A batch waits for the log, which shares the device with flushes and merges. Runs differ by a factor of four.",
	{"populate", "load_peak_file_mb", ""}:                mappedReason,
	{"populate", "settle_s", ""}:                         leftReason,
	{"populate", "after_load_written_per_user_byte", ""}: twiceReason,
	{"limited-load", "settle_s", ""}:                     leftReason,
	{"populate", "fresh_get_1_ns", ""}:                   unmergedReason,
	{"populate", "fresh_get_16_ns", ""}:                  unmergedReason,
	{"populate", "fresh_whole_ns", ""}:                   unmergedReason,
	{"populate", "fresh_seek_1_ns", ""}:                  unmergedReason,
	{"populate", "settled_cpu_s", "16k"}: "The benchmark scans after the load, so stoat writes all values again in the order of their keys, once it is at rest (decision 0049). " +
		"LMDB reuses the pages of overwritten values, and leaves them where they are.",
	{"open", "open_ms", ""}: "LMDB opens by mapping its file. " +
		"stoat reads and verifies its manifest, opens its files, and reads the log beyond the last flush.",
	{"open", "first_get_ms", ""}: "The first read of a part of a file fetches it and verifies its checksum. " +
		"LMDB and bbolt verify nothing and find their pages in the mapping.",
	{"open", "close_ms", ""}: "LMDB closes by removing its mapping. " +
		"stoat stops its background jobs in order and syncs what is not durable yet.",
	{"populate", "load_keys_per_s", "1k"}:                 loadReason,
	{"populate", "load_keys_per_s", "16k"}:                overwrittenReason,
	{"seek", "seek_1_ns", "128"}:                          seekReason,
	{"seek", "seek_16_ns", "128"}:                         seekReason,
	{"scan", "scan_whole_ns", "128"}:                      scanReason,
	{"scan", "keys_ns", ""}:                               scanReason,
	{"scan", "scan_ns", "128"}:                            scanReason,
	{"scan", "all_whole_ns", ""}:                          allReason,
	{"first-scan", "first_whole_ns", "16k"}:               largeReason,
	{"first-ends", "first_ends_ns", "16k"}:                largeReason,
	{"commit", "commit_1_per_s", ""}:                      commitReason,
	{"commit", "commit_16_per_s", ""}:                     commitReason,
	{"commit", "commit_64_per_s", ""}:                     commitReason,
	{"counter", "counter_per_s", ""}:                      counterReason,
	{"counter", "counter_conflicts", ""}:                  "bbolt's Batch runs all functions in one transaction, so none conflicts. An update of stoat takes turns only after its first conflict.",
	{"queue", "queue_0_per_s", ""}:                        queueReason,
	{"queue", "queue_10000_p99_us", ""}:                   queueReason,
	{"get", "get_16_ns", "16k"}:                           largeGetReason,
	{"seek", "seek_1_ns", "16k"}:                          largeGetReason,
	{"seek", "seek_16_ns", "16k"}:                         largeGetReason,
	{"get", "get_1_ns", "1k"}:                             pointerReason,
	{"get", "get_16_ns", "1k"}:                            pointerReason,
	{"get", "hit_1_ns", "1k"}:                             pointerReason,
	{"get", "hit_16_ns", "1k"}:                            pointerReason,
	{"get", "whole_1_ns", "1k"}:                           pointerReason,
	{"get", "whole_16_ns", "1k"}:                          pointerReason,
	{"scan", "scan_ns", "1k"}:                             pointerReason,
	{"scan", "scan_whole_ns", "1k"}:                       randomReason,
	{"first-scan", "first_whole_ns", ""}:                  verifyReason,
	{"first-ends", "first_ends_ns", ""}:                   verifyReason,
	{"first-keys", "first_keys_ns", ""}:                   verifyReason,
	{"reopen", "reopened_1_ns", ""}:                       unmergedReason,
	{"reopen", "reopened_4_ns", ""}:                       unmergedReason,
	{"reopen", "reopened_4_ns", "128"}:                    manyRunsReason,
	{"reopen", "reopened_1_ns", "128"}:                    unmergedReason,
	{"reopen", "reopened_1_ns", "16k"}:                    largeReason,
	{"reopen", "reopened_4_ns", "16k"}:                    randomReason,
	{"seek", "seek_1_ns", "1k"}:                           pointerReason,
	{"seek", "seek_16_ns", "1k"}:                          pointerReason,
	{"get", "get_1_ns", "16k"}:                            largeGetReason,
	{"get", "hit_1_ns", "16k"}:                            largeGetReason,
	{"get", "hit_16_ns", "16k"}:                           largeGetReason,
	{"get", "get_1_p99_us", "16k"}:                        largeGetReason,
	{"scan", "scan_ns", "16k"}:                            largeGetReason,
	{"scan", "scan_whole_ns", "16k"}:                      randomReason,
	{"churn", "peak_anon_mb", ""}:                         memtableReason,
	{"churn", "overwrite_batch_p99_ms", ""}:               slowBatchReason,
	{"churn", "overwrite_batch_max_ms", ""}:               slowBatchReason,
	{"churn", "total_s", ""}:                              "stoat collects garbage beside the writers, down to 14 % of all values while it throttles them. What it collects after them, down to 5 %, does not count here. Stores that keep garbage, or grow to three times the live data, write less.",
	{"churn", "written_per_user_byte", ""}:                "Less garbage costs more rewriting. stoat collects from 18 % of garbage on beside writers, from 14 % when it throttles them, and from 5 % when idle.",
	{"churn", "space_idle_per_live_byte", ""}:             garbageReason,
	{"churn", "space_peak_per_live_byte", ""}:             peakReason,
	{"mixed-50", "mixed_per_s", ""}:                       mixedRateReason,
	{"beside", "seek20_slowdown", ""}:                     besideReason,
	{"beside", "seek20_beside_max_us", ""}:                besideReason,
	{"unique", "load_keys_per_s", ""}:                     throughCacheReason,
	{"unique", "load_mb_per_s", ""}:                       throughCacheReason,
	{"cold-stream", "cold_stream_mb_per_s", ""}:           streamReason,
	{"churn", "space_end_per_live_byte", ""}:              garbageReason,
	{"commit", "commit_1_written_per_user_byte", ""}:      aheadReason,
	{"commit", "commit_64_written_per_user_byte", ""}:     aheadReason,
	{"commit", "commit_1_p99_us", ""}:                     slowestReason,
	{"commit", "commit_16_p99_us", ""}:                    queuedReason,
	{"commit", "commit_64_p99_us", ""}:                    queuedReason,
	{"mixed-50", "mixed_get_p99_us", ""}:                  mixedGetReason,
	{"mixed-50", "mixed_get_p999_us", ""}:                 mixedGetReason,
	{"mixed-50", "mixed_get_p999_slowest_us", ""}:         mixedGetReason,
	{"mixed-50", "mixed_get_max_us", ""}:                  mixedGetReason,
	{"mixed-50", "mixed_put_p999_us", ""}:                 mixedPutReason,
	{"mixed-50", "mixed_put_p999_slowest_us", ""}:         mixedPutReason,
	{"mixed-50", "mixed_put_max_us", ""}:                  longestPutReason,
	{"mixed-95", "mixed_get_p999_us", ""}:                 mixedGetReason,
	{"mixed-95", "mixed_put_p999_us", ""}:                 mixedPutReason,
	{"limited-load", "settled_written_per_user_byte", ""}: flushReason + keepingReason,
	{"limited-read", "cold_1_per_s", ""}:                  coldReason,
	{"cold-seek", "cold_seek_1_per_s", ""}:                coldSeekReason,
	{"cold-seek", "cold_seek_16_per_s", ""}:               coldSeekReason,
	{"cold-get", "cold_1_per_s", ""}:                      coldReason,
	{"cold-get", "cold_1_p99_us", ""}:                     coldReason,
	{"cold-get", "cold_16_per_s", ""}:                     "With 16 reads at once the device is the limit, which all stores come close to. The limits name it. Reads beyond it find their pages in memory.",
	{"batch", "batch_keys_per_s", ""}:                     "The transactions that it is compared with read nothing, so they check nothing either. From the commit on, both do the same.",
	{"ingest", "ingest_mb_per_s", "1k"}:                   "The limit is a direct write. An ingest writes each byte once, through the page cache, and syncs it. In `components.md` it reaches 1.2 times the rate of a plain file that does the same.",
	{"limited-read", "cold_1_p99_us", ""}:                 coldReason,
	{"limited-load", "load_peak_anon_mb", ""}:             memtableReason,
	{"sorted", "settled_cpu_s", ""}:                       "stoat writes a log, and then tables with checksums and filters. LMDB has no log and fills its pages in order.",
	{"sorted", "settled_written_per_user_byte", ""}:       "stoat writes a value to the log and again in the flush. LMDB has no log and fills its pages in order.",
	{"json", "load_keys_per_s", ""}:                       "The default compresses nothing and writes the whole text. Stores that compress write less of it.",
	{"json", "size_per_live_byte", ""}:                    "The default compresses nothing. The column of stoat-fast shows the same database with CompressionFast.",
	{"ingest", "files_keys_per_s", ""}:                    linkReason,
	{"ingest", "files_written_per_user_byte", ""}:         linkReason,
	{"ingest", "files_ingest_s", ""}:                      linkReason,
	{"cold-many", "cold_many_us", ""}:                     coldManyReason,
	{"cold-many", "cold_one_by_one_us", ""}:               coldManyReason,
	{"backup", "restore_mb_per_s", ""}:                    "The backup of bbolt is the file of a database, which a restore copies. stoat verifies each entry and builds tables.",
	{"delete", "space_loaded_mb", ""}:                     headersReason,
	{"delete", "space_idle_mb", ""}:                       idleReason,
	{"delete", "space_collected_mb", ""}:                  idleReason,
	{"delete", "allocated_mb", ""}:                        idleReason,
}
