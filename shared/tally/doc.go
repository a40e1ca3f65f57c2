// Package tally counts by small integers, such as the positions of instances: how many tasks a
// service has on each. Each placement reads and changes a [Counts], often for a service that was not
// looked at since the last placement. A Go map would then follow five pointers, each to memory that is
// not in a cache.
//
// Packages snapshot and placement use it. Start reading at counts.go.
package tally
