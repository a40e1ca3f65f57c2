// Package oracle is placement done the slow way, for tests to compare with: it goes through all
// rows for every single task.
//
// world.go has a cluster as plain rows and short ways to write them, generate.go draws clusters and
// requests at random, oracle.go places and explains by full scans, history.go is a cluster whose
// rows come and go.
package oracle
