// Package manual runs the jobs that a caller asks for: Compact, Collect and the
// freeing of space after DropPrefix and DropAll, and of dropped keyspaces. They take
// turns with the compactor and the collector, job by job, so that each sees what the
// others have done.
package manual
