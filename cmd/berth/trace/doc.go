// Package trace reads recorded clusters: their nodes and tasks, from CSV files.
//
// [ReadNodes] and [ReadTasks] read any file, [DefaultNodes], [DefaultTasks] and [ReadTaskList]
// those that come with Berth: a production cluster of Alibaba with 1,523 nodes and 8,152 tasks (see
// README.md). The replay, the packing benchmark and what-if use them. The package imports nothing
// of Berth and decides nothing.
//
// Every value is checked, and files are bounded in rows, bytes and amounts, so no file can exhaust
// memory or overflow a sum. Errors name the line, the column, the value and what was expected
// ([ValueError]).
//
// Start reading at [ReadTasks].
package trace
