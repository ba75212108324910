// Package stores adapts stoat and its peers to one small interface for the
// workloads, and states the options of each store.
//
// An adapter uses its store as the store's documentation recommends. Adapters do
// not know the workloads, and workloads do not know the stores. An adapter lends
// the store's bytes instead of copying them where the store allows it.
//
// Stores written in C need the build tags lmdb and rocksdb. Without its tag a
// store stays in the list, so that a report can say why it is absent.
package stores
