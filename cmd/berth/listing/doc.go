// Package listing makes lists of a cluster's services, tasks, instances and events, and prints them
// as a table, JSON, YAML or names.
//
// [Services], [Tasks] and [Instances] read a snapshot. Their items have stable JSON names. The
// commands of `berth` print them with [Write], and the console shows the same items on its pages.
// The package is pure but for the writer that it is given. Start with item.go.
package listing
