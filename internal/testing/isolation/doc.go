// Package isolation checks that transactions which ran at the same time could
// have run one after the other.
//
// Run drives a store with random concurrent transactions and records a
// History: what every transaction asked, what it was answered, when it was
// called and when it returned. Check then looks for a proof. It needs no
// search, because the store itself names the order: every writing transaction
// has a commit version, or a place among those whose version nobody was told. Check replays the commits in that order and demands
//
//   - that the versions have no holes and no doubles;
//   - that each transaction read its snapshot: every read, and every scan to
//     the point where it stopped, is the state as of the read version, under
//     the transaction's own writes. This holds for transactions that were
//     aborted too;
//   - that a transaction which committed writes would have read the same just
//     before its commit: no other commit changed anything under its reads,
//     keys that were absent and gaps between scanned keys included;
//   - that the order agrees with time: what had returned before a transaction
//     began is in its snapshot, and what was not yet called is not.
//
// These together say strictly serializable. A history that passes has the
// order as its witness; a failure names two transactions and the read.
//
// Conflicts that were reported without a reason are counted apart: they break
// no promise, but an engine that promises exact conflicts should have none.
//
// The workloads beside Run (Doctors, Receipts, Bank and others) each keep an
// invariant of an application that only serializable transactions keep, and
// look at nothing but that.
package isolation
