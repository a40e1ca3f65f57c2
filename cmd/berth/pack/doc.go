// Package pack measures how much of a cluster's GPUs a scoring gets to use: it fills the GPU nodes
// of a trace with its tasks, one by one, through the production placement engine.
//
// It follows the protocol of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023), so its
// figures can be compared with the published ones: tasks arrive in random order, each once, and are
// then drawn at random until they have asked for 130 % of the GPUs. No task ends. A task that finds
// no room waits and is not offered again.
//
// In come lists of package trace; out comes a [Result]. `berth pack` is the only caller. The same
// options give the same figures, except for the speed.
//
// Start reading at [FillCluster]; workload.go turns tasks into what the engine is asked.
package pack
