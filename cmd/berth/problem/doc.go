// Package problem finds what is wrong in a cluster, and why.
//
// [Find] takes a snapshot of the cluster and what its instances come from, and returns ranked
// problems: services below their desired count, throttled starts, deployments that are stuck or
// were rolled back, tasks without an instance, instances that no service can use, drains and
// upgrades that wait, dead letters, and groups that do not scale in. Each has its cause in numbers,
// since when it lasts, and commands that may help.
//
// Nothing is decided here. The causes are what placement, throttling, managed scaling and updates
// have recorded, or what their own code answers when it is asked again (package whatif). The
// package is pure. Start with problem.go.
package problem
