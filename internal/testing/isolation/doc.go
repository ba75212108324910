// Package isolation checks that concurrent transactions could have run one after
// the other.
//
// Run drives a store with random concurrent transactions and records a History. The History
// has what every transaction asked and was answered, and the times of its calls and
// returns. Check then looks for a proof. It needs no search, because the store itself names
// the order. Every writing transaction has a commit version, or a rank among the commits
// whose versions the store does not report. Check replays the commits in that order and
// demands
//
//   - that the versions have no gaps and no duplicates;
//   - that each transaction read its snapshot. Every read, and every scan to the point
//     where it stopped, matches the state as of the read version, under the transaction's
//     own writes. This applies to aborted transactions too;
//   - that a transaction which committed writes would have read the same just before its
//     commit. No other commit changed anything under its reads, absent keys and gaps
//     between scanned keys included;
//   - that the order agrees with time: a snapshot includes what returned
//     before the transaction began, and excludes what was called later.
//
// Together these mean strictly serializable. A history that passes has the order
// as its witness. A failure names two transactions and the read.
//
// Blind merges read nothing, so transactions that merge into one key do not conflict.
// The order of commits says what value they make. A list that grows at its end shows
// each operand once, in that order.
//
// At timestamps, each pair of a key and a timestamp is a key of its own. A read is then
// a scan of the pairs up to its timestamp.
//
// Check counts conflicts without a reason separately. They break no promise of
// isolation, but an engine that promises exact conflicts should have none.
//
// The other workloads (Doctors, Receipts, Bank and others) each keep an
// invariant of an application that only serializable transactions keep, and
// check only that.
package isolation
