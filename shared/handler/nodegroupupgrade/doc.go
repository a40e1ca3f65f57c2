// Package nodegroupupgrade is the node-group-upgrade function: it creates, resizes, updates, labels
// and deletes node groups.
//
// [Handler.RunSchedule] runs once a minute and reconciles every node group of every cluster. For an
// update of the nodes it does the following:
//
//  1. read the update's row, the Auto Scaling group and the cluster (look.go),
//  2. let package nodegroup decide the next row and the actions,
//  3. write the row,
//  4. carry out the actions (act.go).
//
// Each step may be lost or repeated: the next minute decides again from what is there. The row is
// written before anything is done, so a crash in between loses no intent.
//
// What fails for now is tried again the next minute. What is refused for good ends the update's way
// forward: it restores what it has changed, see nodegroup.Fail.
//
// Nothing is decided here: which nodes go, and why an update fails, is in package nodegroup.
package nodegroupupgrade
