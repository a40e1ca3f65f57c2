// Package awsevent decodes EventBridge events into the nouns of package cluster.
//
// [Decode] takes the JSON of one event and returns an [Event] with its detail. One table, keyed by
// detail-type, has the source and a function for each kind of event that Berth needs. To add a
// kind, add a line to the table in decode.go, a function that reads the detail, and an example to
// the folder events.
//
// Invariants:
//   - An unknown kind or field is never an error: AWS may add either at any time.
//   - What is malformed is a *cluster.Drop, which is acknowledged, counted and logged, but never
//     retried.
//   - Names that become part of a row's key consist of letters, digits, hyphens and underscores,
//     and numbers are bounded.
//
// The functions that handle events call it, as does the adapter of Lambda's event sources. It reads
// no clock, no environment and no network. Start reading at decode.go.
package awsevent
