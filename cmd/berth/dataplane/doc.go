// Package dataplane serves the simulated AWS from a process of its own, for a Berth whose functions
// run elsewhere, such as on an emulator of AWS.
//
// [Serve] answers the protocols of the simulated services, reports every task and instance state
// change to EventBridge (reporter.go), and adds the calls of package chaos, which break machines
// and tasks. `berth fleet` calls it; `berth up` uses only [ServeUntil].
//
// Events are sent in their order, and again until EventBridge accepts them. Events that the process
// could not send before it ended are lost, as ECS may lose some. The control calls accept requests
// from this machine only, and none that a web page can make.
package dataplane
