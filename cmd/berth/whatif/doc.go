// Package whatif answers questions about a cluster with the engines that decide about it: where
// tasks would go ([Ask]), why things are as they are (the Explain functions), and what an upgrade
// or a consolidation would do ([PlanUpgrade], [PlanConsolidation]).
//
// It owns the answers: their JSON names are stable, and each has a Print method for people. It
// decides nothing itself. In come a snapshot, built from the rows of a running Berth, a saved file,
// or the nodes of a trace (source.go), and for questions about groups the [Capacity] that the
// instances come from. The commands of `berth` call it; nothing else does.
//
// No answer changes a running cluster, and all but [PlanUpgrade] leave the snapshot as it was. A
// name that the cluster does not have is a [*NotFound].
//
// Start reading at [Ask] in answer.go; print.go has the texts.
package whatif
