// Package packing scores instances so that the GPUs of a cluster stay usable: the scoring
// "least-fragmentation".
//
// A snapshot comes in; for a task's needs and an instance the [Scorer] returns what it costs to
// place the task there, the lowest is the best. Placement calls it for specs that name the scoring;
// it never looks at who asks.
//
// Start with scorer.go. mix.go learns which kinds of tasks run and wait and divides the instances
// into pools, price.go finds which pools are in demand, value.go says how badly what an instance
// has free can be used, state.go numbers what instances have free, so that equal instances are
// valued once.
//
// A score depends on the snapshot and on what was learned at the start of the epoch, and on nothing
// else.
package packing
