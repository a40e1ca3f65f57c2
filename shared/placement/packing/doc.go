// Package packing scores instances so that the GPUs of a cluster stay usable: the scoring
// "least-fragmentation". docs/packing.md describes it for users.
//
// Comes in: a snapshot, then a task's needs and an instance. The [Scorer] returns the cost of
// placing the task there; the lowest is the best. Package placement calls it for specs that name
// this scoring, and for nothing else.
//
// Start with scorer.go. mix.go learns which kinds of tasks run and wait, and divides the instances
// into pools. demand.go finds which pools are in demand, waste.go says how badly free capacity can
// be used, and shape.go numbers what instances have free, so that equal instances are valued once.
//
// Invariant: a score depends on the snapshot and on what was learned at the start of the epoch, and
// on nothing else, such as the order of tasks or earlier calls.
package packing
