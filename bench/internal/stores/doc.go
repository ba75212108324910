// Package stores shows stoat and its peers to the workloads through one small
// interface, and says with which options each of them runs.
//
// An adapter does what a careful user of that store would do after reading
// its documentation, and nothing else: no workload is known here, and no
// store is known to the workloads. Where a store can lend its bytes instead
// of copying them, its adapter lends them.
//
// Stores written in C are behind the build tags lmdb and rocksdb. Without the
// tag a store stays in the list, so that a report can say why it is absent.
package stores
