// Package access decides who may call which operation of Berth's API.
//
// Every caller may read. Two lists of principals allow more: writers may change services, tasks,
// clusters and everything else, except for node groups and capacity providers. Node-group managers
// may create, change and delete those, and so the Auto Scaling groups behind them. A principal may
// be on both lists. docs/security.md says what each right allows.
//
// The package sees only operations and principals, never what a request is about: an operation that
// needs another right for some of its requests asks [Policy.CheckRight]. IAM in front of
// the function URL identifies the caller, or [Verifier] on the embedded tier. Start reading at
// [Policy.Check].
package access
