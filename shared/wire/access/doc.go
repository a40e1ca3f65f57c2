// Package access decides who may call which operation of Berth's API.
//
// Whoever may invoke the API may read. Two lists of principals allow more: writers may change
// services, tasks, clusters and everything else; node-group managers may create, change and delete
// node groups and capacity providers, and so the Auto Scaling groups behind them. A principal may
// be on both lists. docs/security.md says what each right allows.
//
// The package knows operations and principals only, never what a request is about. Who the caller
// is was established before: by IAM in front of the function URL, or by [Verifier] on the embedded
// tier. Start reading at [Policy.Check].
package access
