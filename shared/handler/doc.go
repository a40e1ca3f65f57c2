// Package handler has what Berth's functions share: the ports to everything outside, the settings
// of an installation, the telemetry that operators watch, and the rotation over clusters. Each
// function has a package of its own below it.
//
// A function is called with a batch of stream records, messages or the name of a schedule. It loads
// what it needs, lets the pure core decide, commits or acts, and returns what is to be delivered
// again. The functions know no AWS type and not in which tier they run: functions/NAME starts them
// in Lambda, cmd/berth in one process.
//
// Invariants:
//   - A function may be cut off anywhere and run again; several environments of it may run at once.
//   - No function sleeps, except the API's while a caller waits.
//   - The functions talk to each other through rows. Their only message, [WakeUp], only says that a
//     cluster has something due.
//
// Start reading at ports.go and settings.go. The tests of this package drive several functions
// together, on an embedded store and a simulated ECS.
package handler
