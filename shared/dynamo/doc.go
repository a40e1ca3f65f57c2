// Package dynamo keeps the state in one DynamoDB table: partition key pk (the cluster), sort key
// sk, both strings, no index, expiry by the attribute ttl, a stream of new and old images.
//
// [State] implements [state.Store]. Each [state.Write] becomes one statement (statement.go), a put,
// an update or a deletion with the condition that package state defines for it; a [state.Commit]
// becomes one transaction (execute.go). Rows are items whose attributes are the fields of the row's
// JSON (item.go). [DecodeRecord] reads a record of the table's stream. The package decides nothing.
//
// Every call is repeated here and nowhere else (retry.go): a call whose outcome is unknown is
// repeated only if it may take effect twice, or under the token of its transaction. What stays
// unknown is cluster.ErrAmbiguous.
//
// Functions use it in the cloud; package porttest tests it on emulators against the same rules as
// package embedded. Start at [State.Write] and statementFor.
package dynamo
