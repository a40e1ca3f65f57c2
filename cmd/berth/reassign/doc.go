// Package reassign measures the search of package rebalance on the machine reassignment problem of
// the ROADEF/EURO challenge 2012, which has known good solutions.
//
// In come the challenge's files: a model and where its processes run. Out goes a [Result], with a
// machine for each process. A process is a task, a machine an instance, a location a zone, a
// transient resource one that counts on both sides while a task moves. `berth rebalance` is the
// only caller.
//
// read.go reads the files, reassign.go searches and plans. The tests check results with a program
// of their own, which follows the published statement and shares no code with the search.
package reassign
