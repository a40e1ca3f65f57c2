// Package specs turns rows into questions to placement: the spec of a service's or a request's
// tasks, the capacity provider that each task goes to, and the services whose tasks may move.
//
// Decisions, managed scaling, node-group upgrades and what-if all use it, so they never disagree
// about where a task fits.
//
// Invariant: the same rows give the same *[placement.Spec], the pointer included, for as long as a
// [Cache] lives. The placement engine remembers its answers by that pointer.
//
// Start reading at cache.go.
package specs
