// Package commit takes transactions through the write-ahead log, one order for
// all.
//
// A transaction that commits joins a queue. If no group is under way, its goroutine becomes a
// leader; otherwise it waits. A second leader may begin beside a group without a sync, or once
// the queue has besideBytes. A leader
//
//  1. waits for the members of the last group to come back, if its own group needs a sync. They
//     come back at once if they commit in a loop.
//  2. under build, takes the queue. It validates what each transaction read, and gives the
//     transaction the next sequence number. It applies the transaction to the memtable,
//     where no reader sees it yet, and encodes it for the log. Then one call writes the
//     group to the log.
//  3. outside build, so that the next leader can build, syncs the log if a member
//     asked for it.
//  4. when the group before it has been published, publishes its own. It moves the visible
//     sequence number, hands the lead to the head of the queue, and wakes the members.
//
// A group becomes visible only after its sync: no reader sees what a power cut
// could take back, except what was committed as Buffered.
//
// The first error of the log ends all commits. Sequence numbers may have been
// applied that never became durable.
package commit
