// Package nodegroup decides the next step of a node group's update (N1 to N8): which launch
// template version and sizes its Auto Scaling group gets, and which nodes are taken out of service,
// drained, terminated or put back.
//
// [Next] takes the update's row, what the group looks like and the time. It returns the row to
// write, and the actions to carry out once it is written. The package carries out nothing and reads
// no clock.
//
// An update goes through phases, each in a file of its own:
//
//	setup        make a launch template version and let the group use it     setup.go
//	scale up     add surplus nodes and wait until they are Ready             scaleup.go
//	upgrade      replace the old nodes, a few at a time                      upgrade.go, domain.go
//	scale down   remove the surplus, one node at a time                      scaledown.go
//	restore      after a failure: undo, then remove the surplus              restore.go, scaledown.go
//
// Each node leaves service in steps (removal.go): DRAINING until its tasks have left, cordoned for
// a while, terminated.
//
// Invariants:
//   - The same inputs give the same answer, and the row that is returned gives the same actions
//     again. An action states how something must be, so it may be repeated or lost at any time.
//   - At most MaxUnavailable nodes are out of service and not yet replaced.
//   - The group's minimum never changes, and its other sizes end as they began unless somebody else
//     changes them.
//   - Time without a call of Next does not count towards any timeout.
//
// The node-group-upgrade function calls Next when a message wakes it, and once a minute. The API
// calls [StartUpdate] for UpdateNodegroupVersion, and the dry run of "berth upgrade" calls
// [ReplacementOrder] and [BlockingTasks]. Start reading at Next.
package nodegroup
