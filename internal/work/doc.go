// Package work runs background jobs. It has workers that wait for work, and an executor
// that decides how jobs run. It also has a lock that is fair between jobs, and the load of
// the database.
//
// It knows nothing of what the jobs do.
package work
