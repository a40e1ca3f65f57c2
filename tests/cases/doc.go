// The case runner: it runs every case of a folder of JSON files through the engine's public
// functions and prints, per kind, how many of them passed and which did not.
//
//	go run ./tests/cases                      # the project's own cases, tests/cases/testdata
//	CASES_DIR=DIRECTORY go run ./tests/cases  # those of another folder
//
// It maps a case's fields to rows, specs and requests, and compares what comes back with what the
// case expects. It has no rule of its own: a field that it does not know fails the case.
// testdata/README.md describes the fields.
package main
