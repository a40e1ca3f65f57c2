// Package observe turns what ECS reported into rows: tasks, container instances, loads and
// clusters.
//
// Five functions use it: what an event says, what a sweep lists and what a call returned is all
// written here, in one way. Reports come at least once and out of order; a row takes only what is
// newer than what it has.
//
// Start reading at observe.go.
package observe
