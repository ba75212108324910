# The daily loop is `make check`. Every target that runs something random takes
# SEED, a number or "random", and prints a command that repeats a failure. After a
# panic outside of the test, or after TIMEOUT, that line is missing: run the same
# command with the same seed. A drawn seed is printed first. Go's own fuzzing (make
# fuzz) has no seed, but keeps and names the input that fails.

GO          ?= go
STATICCHECK  = honnef.co/go/tools/cmd/staticcheck@v0.8.2

SEED ?= 1

# Build flags of the randomized targets; `make model RACE=-race` adds the race
# detector. Invariants are on: they make a wrong state fail where it begins.
TAGS ?= invariants
RACE ?=
VERBOSE ?=

# After this time a randomized target that hangs is ended, with a trace of every
# goroutine. A run of hours asks for more.
TIMEOUT ?= 4h

# Platforms that must compile, beside this one. On Linux on amd64, test-short vets linux/386.
PLATFORMS = darwin/arm64 freebsd/amd64 windows/amd64 linux/arm64

.PHONY: help check fmt vet staticcheck layers cross test test-short \
	race fuzz crash crash-twice crash-log faults bits salvage backup-damages kill powercut diskfull model timestamps mixture isolation reads feeds crash-feeds followers nonces schedules stress large mutants s3store bench bench-guard compare cover

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' Makefile

check: fmt vet staticcheck layers cross test-short ## all that must hold before a change is done
	@echo "check: ok"

fmt: ## fail when gofmt would change a file
	@files=$$(find . -name '*.go' -not -path './.git/*' -exec gofmt -l -s {} +) || exit 1; \
	if [ -n "$$files" ]; then echo "gofmt -s -w these:"; echo "$$files"; exit 1; fi

vet: ## go vet with all build tags; cross vets without tags
	$(GO) vet -tags invariants,mutants ./...

staticcheck: ## staticcheck, at a version that is fixed here
	$(GO) run $(STATICCHECK) -tags invariants ./...

layers: ## which package imports which
	$(GO) test ./internal/testing/layers

cross: ## vet for the other platforms
	@set -e; for platform in $(PLATFORMS); do \
		echo "vet $$platform"; \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) vet ./...; \
	done

# docs/testing.md has the sizes of these runs.
tests = @GO="$(GO)" SEED="$(SEED)" .ci/test

test: ## what a user runs: all tests, no tags: SEED
	$(tests) -timeout 30m

test-short: ## short tests with invariants, on Linux on amd64 with 32-bit integers: SEED
	@if [ "$$($(GO) env GOHOSTOS GOHOSTARCH | tr '\n' /)" = linux/amd64/ ]; then \
		export CGO_ENABLED=0 GOARCH=386; fi; \
	echo "$(GO) test -short -tags invariants ./... ($$($(GO) env GOARCH))"; \
	GO="$(GO)" SEED="$(SEED)" .ci/test -timeout 30m -short -tags invariants -vet all

race: ## all tests under the race detector, short: SEED
	$(tests) -race -short -vet=off -timeout 30m

# randomized runs the tests of the package $(1) whose whole names match $(2), with
# the flags $(3). It fails when the package has no such test.
define randomized
	@$(GO) test -tags "$(TAGS)" -list '^($(2))$$' $(1) | grep -q '^Test' || \
		{ echo "$(1) has no test $(2)"; exit 1; }
	$(GO) test -tags "$(TAGS)" $(RACE) $(VERBOSE) -count=1 -timeout $(TIMEOUT) -run '^($(2))$$' $(1) -args -stoat.seed=$(SEED) $(3)
endef

# The sizes below suit a change; docs/testing.md has those for a night and for a
# release.

crash: STATES ?= 20000
crash: ## power cuts at every boundary: SEED, STATES
	$(call randomized,./tests/crash,TestCrash,-stoat.states=$(STATES))

crash-twice: STATES ?= 2000
crash-twice: ## power cuts while opening after a power cut: SEED, STATES
	$(call randomized,./tests/crash,TestCrashTwice,-stoat.states=$(STATES))

crash-log: LIVES ?= 500
crash-log: ## power cuts while full segments of the log are not durable: SEED, LIVES
	$(call randomized,./tests/crash,TestPending_FullSegmentsMayBecomeDurableLater,-stoat.lives=$(LIVES))

faults: STATES ?= 20000
faults: ## failing calls of the file system, once and for good: SEED, STATES (-1: each call once)
	$(call randomized,./tests/faults,TestFaults,-stoat.states=$(STATES))

bits: FLIPS ?= 20000
bits: ## damaged files: SEED, FLIPS (-1: every bit, sector and length of stored data)
	$(call randomized,./tests/bits,TestBits,-stoat.flips=$(FLIPS))

salvage: FLIPS ?= 2000
salvage: ## damaged files, salvaged: SEED, FLIPS of each image
	$(call randomized,./tests/bits,TestSalvage,-stoat.flips=$(FLIPS))

backup-damages: FLIPS ?= 100000
backup-damages: ## damaged backups, which must be refused: SEED, FLIPS
	$(call randomized,./tests/backup,TestBackupDamages_EachIsRefused|TestFileBackupDamages_EachIsRefused|TestSortedDamages_EachIsRefusedAndChangesNothing,-stoat.flips=$(FLIPS))

kill: KILLS ?= 50
kill: ## processes killed while they use a database: SEED, KILLS
	$(call randomized,./tests/kill,TestKill,-stoat.kills=$(KILLS))

# These say what this machine made them skip.
powercut diskfull: VERBOSE = -v

powercut: CUTS ?= 20
powercut: ## power cuts of ext4 and XFS on loop devices, as root: SEED, CUTS
	$(call randomized,./tests/powercut,TestPowerCut,-stoat.cuts=$(CUTS))

diskfull: SIZES ?= 3
diskfull: ## disks that are really full, as root: SEED, SIZES
	$(call randomized,./tests/diskfull,TestDiskFull,-stoat.sizes=$(SIZES))

model: OPS ?= 1000000
model: ## random operations against a sorted map: SEED, OPS
	$(call randomized,./tests/model,TestModel,-stoat.ops=$(OPS))

timestamps: OPS ?= 100000
timestamps: ## keyspaces with timestamps against a map of all versions, and power cuts: SEED, OPS
	$(call randomized,./tests/timestamps,TestTimestamps_ReadsAreThoseOfTheModel|TestTimestamps_APowerCutTakesNoVersionAndNoDiscardPoint,-stoat.ops=$(OPS))

mixture: LIVES ?= 500
mixture: ## lives with all features at once against a model: SEED, LIVES
	$(call randomized,./tests/mixture,TestMixture,-stoat.lives=$(LIVES))

nonces: SEALS ?= 1000000
nonces: ## encrypted workloads with power cuts, each nonce watched: SEED, SEALS
	$(call randomized,./tests/crash,TestNonces_NeverRepeat,-stoat.seals=$(SEALS))

feeds: LIVES ?= 500
feeds: ## feeds of changes that begin again after power cuts: SEED, LIVES
	$(call randomized,./tests/feed,TestFeeds,-stoat.lives=$(LIVES))

crash-feeds: STATES ?= 20000
crash-feeds: ## feeds of changes of what power cuts leave: SEED, STATES
	$(call randomized,./tests/feed,TestFeedCrashes,-stoat.states=$(STATES))

followers: LIVES ?= 100
followers: ## followers of a writer through restarts, kills and power cuts: SEED, LIVES
	$(call randomized,./tests/follow,TestFollowers,-stoat.lives=$(LIVES))

reads: LIVES ?= 100
reads: ## streams, estimates, splits and sequences against a model: SEED, LIVES
	$(call randomized,./tests/reads,TestReads,-stoat.lives=$(LIVES))

isolation: HISTORIES ?= 1000
isolation: ## concurrent transactions must have a serial order: SEED, HISTORIES
	$(call randomized,./tests/isolation,TestIsolation|TestApplications,-stoat.histories=$(HISTORIES))

schedules: SCHEDULES ?= 2000
schedules: ## all work as steps of one thread, in orders drawn from a seed: SEED, SCHEDULES
	$(call randomized,./tests/schedules,TestSchedules,-stoat.schedules=$(SCHEDULES))

stress: RACE = -race
stress: DURATION ?= 10s
stress: ## writers, readers and reopening under the race detector: SEED, DURATION
	$(call randomized,./tests/stress,TestStress,-stoat.duration=$(DURATION))

# It takes no seed: nothing in it is drawn.
large: ## the largest value, of 4 GiB, and transactions of 1 GiB, on a disk
	$(GO) test -v -count=1 -timeout $(TIMEOUT) -run '^TestLargeValue_|^TestLargeTransactions_' ./tests/behaviour -args -stoat.large

mutants: TAGS = invariants,mutants
mutants: ## guarantees removed one at a time: some test must notice
	$(call randomized,./tests/mutants,TestMutants)

# fuzz runs every fuzz target of the module for DURATION. What it finds to fail
# is kept in testdata/fuzz by go test itself; with KEEP=1 so are the inputs
# that reached new code.
fuzz: DURATION ?= 10s
fuzz: ## every fuzz target: DURATION, KEEP=1
	@GO="$(GO)" DURATION="$(DURATION)" KEEP="$(KEEP)" .ci/fuzz

s3store: ## the module for S3, against a server that it builds
	cd s3store && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./... && $(GO) test -timeout 30m ./...

bench: KEYS ?= 1M
bench: ## benchmarks of the components, then of the whole: SEED, KEYS
	$(GO) test -run '^$$' -bench . -benchtime 0.5s ./...
	$(GO) run ./cmd/stoat bench -seed $(SEED) -keys $(KEYS)

bench-guard: ## fail if stoat is slower than at the last recorded commit: DIR=, ARGS=
	@$(MAKE) -C bench guard

compare: ## stoat beside other stores: QUICK=1, ONLY=, DIR=, ARGS=
	@$(MAKE) -C bench compare

cover: ## statement coverage by function, in coverage.out
	$(GO) test -coverpkg=./... -coverprofile=coverage.out ./...
	$(GO) tool cover -func=coverage.out
