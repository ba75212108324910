// Package isolation runs concurrent transactions on a database, and demands that its
// history has a serial order and that each conflict has a reason.
package isolation
