// Package wiring reads from template.yaml what invokes each function: the stream with its filters,
// queues with the rules and functions that send to them, schedules and the function URL. It expands
// patterns into their single cases, so that a page can list them (`go run ./tests/triggers`) and
// tests can find a case without an example.
//
// Unlike package embedded it keeps the text of patterns and knows nothing about delivery. Start at
// [Read].
package wiring
