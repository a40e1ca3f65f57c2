// Package invariant checks every commit of a simulated cluster against the invariants of
// docs/design.md. It states the rules of placement, services and deployments a second time, as
// plainly as possible and without calling the code under test: every question is answered anew, by
// looking at all rows.
//
// The simulation passes each commit's records to [Checker.CheckCommit], and the calls of StartTask
// to [Checker.CheckStartTask]; [Checker.Broken] collects what was violated. The simulation also
// asks the checker for rooms and rules when it examines a cluster at rest
// ([RowHistory.WhyRejected]).
//
// Failures name the invariant that was violated:
//
//   - 1: no placement exceeds an instance's capacity;
//   - 2: each task row gets at most one ECS task, and a STOPPED task never runs again;
//   - 3: starts and stops of a service stay within its percentages, its throttle and its protections;
//   - 4: a DAEMON service has at most one task per instance, and none starts on a draining one;
//   - 5: no placement breaks a rule that was in force when it was committed;
//   - 6 and 7: what updates and managed scaling may do to nodes (checked by package simulation);
//   - 8: without faults the cluster converges, and then nothing happens;
//   - 9: nothing acknowledged to a caller is lost.
//
// A decision may have been made without knowing of the newest changes: a write that only frees
// capacity does not move the placement version. So a decision is wrong only if it is wrong for
// every state that it may have seen. Two means serve that end. What changed less than Staleness ago
// counts in the decision's favour, and [RowHistory] keeps earlier versions of instances, from which
// recentPast makes every combination that may have been seen.
//
// Start reading at [Checker.CheckCommit]. Then: rows.go (the copy of all rows and its indexes),
// placement.go (new tasks), services.go (starts and stops of a service), deployments.go (rollouts,
// compared with package model), throttle.go, room.go and domains.go (whether an instance could take
// a task), moves.go (whether a task had to move).
package invariant
