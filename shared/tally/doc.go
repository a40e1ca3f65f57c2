// Package tally counts by small integers, such as the positions of instances: how many tasks a
// service has on each. A [Counts] is read and changed at each placement, for a service that nobody
// looked at since the last one. A map of Go would follow five pointers then, each to memory that is
// not in a cache.
//
// Packages snapshot and placement use it. Start reading at counts.go.
package tally
