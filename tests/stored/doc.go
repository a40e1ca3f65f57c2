// Package stored checks that this version reads everything that earlier versions have stored.
//
// Each folder below testdata was written by one version and is never changed:
//
//   - berth/ is the folder of `berth up`, left as if killed while much was in progress:
//     deployments, an update of nodes, waiting tasks, a draining instance, a lost one, changes that
//     no function has seen yet;
//   - every-field/ is a state file with rows of all kinds, in which every field has a value;
//   - table.jsonl has the rows of both as an export of the DynamoDB table;
//   - answers.json is what the APIs answered when that version opened berth/ again.
//
// The third folder is of the first version with inbox rows, and with tasks and aliases spread over
// partition keys.
//
// A version that stores something new gets a folder of its own, beside the others:
//
//	go test ./tests/stored -run TestWrite -write 4
//
// Do not rewrite a folder to make a test pass: it would no longer be what an installation of that
// version has stored.
package stored
