// Package mixture plays random lives of databases that use all features at once, and compares
// them with a model. Keyspaces with merge functions, filters and timestamps come and go.
// Ingests, backups, checkpoints, failing calls and power cuts happen beside them.
package mixture
