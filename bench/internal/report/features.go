package report

// featureSection has the rows of what a store offers beside reads and writes of
// keys. The targets of the ingest differ between the sizes of values.
func featureSection(data, title string, ingest ...Row) Section {
	row := func(label, workload, metric string, t Target) Row {
		return Row{Label: label, Workload: workload, Data: data, Metric: metric, Target: t}
	}
	rate := func(label, workload, metric string, t Target) Row {
		r := row(label, workload, metric, t)
		r.Higher = true
		return r
	}
	rows := append(ingest,
		row("ingest of sorted entries, bytes written per user byte", "ingest", "ingest_written_per_user_byte", Target{}),
		rate("the same through sorted files, k keys/s", "ingest", "files_keys_per_s", Target{}).scaled(1e-3),
		row("the same, bytes written per user byte", "ingest", "files_written_per_user_byte", Target{}),
		row("writing the sorted files, ms", "ingest", "files_write_s", Target{}).scaled(1e3),
		row("ingesting the sorted files, ms", "ingest", "files_ingest_s", Target{}).scaled(1e3),
		rate("blind writes of 8 goroutines, k keys/s", "batch", "batch_keys_per_s", own(1.15, baseline{name: "transactions", Workload: "batch", Metric: "applied_keys_per_s"})).scaled(1e-3),
		rate("the same in commits of 1,000 keys, k keys/s", "batch", "applied_keys_per_s", Target{}).scaled(1e-3),
		rate("parallel read of a snapshot, warm, MB/s", "stream", "stream_mb_per_s", Target{}),
		rate("parallel read of a snapshot, nothing cached, MB/s", "cold-stream", "cold_stream_mb_per_s", own(3, baseline{name: "iterator", Workload: "cold-scan", Metric: "cold_scan_mb_per_s"})).onReadAhead(),
		row("100 keys at once, µs", "many", "many_us", own(0.6, baseline{name: "gets", Workload: "many", Metric: "one_by_one_us"})),
		row("100 gets, µs", "many", "one_by_one_us", Target{}),
		row("100 keys at once, nothing cached, µs", "cold-many", "cold_many_us", own(0.3, baseline{name: "gets", Workload: "cold-many", Metric: "cold_one_by_one_us"})).onReadAhead(),
		row("100 gets, nothing cached, µs", "cold-many", "cold_one_by_one_us", Target{}).onReadAhead(),
		rate("backup, MB/s", "backup", "backup_mb_per_s", Target{}),
		row("backup, bytes per live byte", "backup", "backup_size_per_live_byte", Target{}),
		rate("restore, MB/s", "backup", "restore_mb_per_s", Target{}),
		row("checkpoint, ms", "checkpoint", "checkpoint_ms", Target{}),
	)
	return Section{Title: title + ", in and out", Note: featureNote, Rows: rows}
}

const featureNote = "An ingest replaces all values by sorted input, directly or through files of 32 MiB. " +
	"Blind writes go through the store's own batch for many goroutines, and elsewhere through commits of 1,000 keys. " +
	"Parallel reads check every byte. Stores without a call for many keys read 100 keys one by one. " +
	"A checkpoint follows 1,000 writes. Ingests, blind writes, backups, restores and checkpoints are durable when the clock stops."

// featureSections returns the rows of all features.
func featureSections() []Section {
	rate := func(data string, t Target) Row {
		r := Row{Label: "ingest of sorted entries, k keys/s", Workload: "ingest", Data: data, Metric: "ingest_keys_per_s", Higher: true, Target: t}
		return r.scaled(1e-3)
	}
	share := Row{
		Label: "ingest, as a share of the device's sequential write", Workload: "ingest", Data: "1k", Metric: "ingest_mb_per_s",
		Higher: true, Target: absolute(0.8), PerLimit: "write_direct_mb_per_s",
	}
	follower := func(label, metric string, t Target) Row {
		return Row{Label: label, Workload: "followers", Data: "128", Metric: metric, Target: t}
	}
	commits := follower("k commits/s of the writer", "follow_commits_per_s", Target{}).scaled(1e-3)
	commits.Higher = true
	return []Section{
		featureSection("128", "128 B × 2 M", rate("128", absolute(2500))),
		featureSection("1k", "1 KiB × 1 M", rate("1k", Target{}), share),
		{
			Title: "A follower beside 50,000 commits per second",
			Note:  "The follower is refreshed again and again, and then reads the newest commit that was acknowledged before the refresh.",
			Rows: []Row{
				follower("refresh and read, p50, µs", "follow_p50_us", Target{}),
				follower("refresh and read, p99, µs", "follow_p99_us", absolute(50_000)),
				commits,
			},
		},
	}
}
