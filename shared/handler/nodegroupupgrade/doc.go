// Package nodegroupupgrade is the node-group-upgrade function: it creates, resizes, updates, labels
// and deletes node groups (N1 to N8).
//
// [Handler.HandleMessages] reconciles the node groups of the clusters that messages name, and
// [Handler.RunSchedule] those of every cluster once a minute. What
// comes in are the rows that the API wrote, the Auto Scaling groups, and the cluster's rows. What
// goes out are the rows of node groups and updates, and calls of Auto Scaling, EC2 and ECS. For an
// upgrade of nodes it does the following:
//
//  1. read the update's row, the Auto Scaling group and the cluster (observe.go),
//  2. let package nodegroup decide the next row and the actions,
//  3. write the row (rows.go),
//  4. carry out the actions (act.go).
//
// lifecycle.go creates, resizes and deletes node groups; label.go labels nodes.
//
// Invariants:
//   - Each step may be lost or repeated: the next minute decides again from what is there. The
//     row is written before anything is done, so a crash in between loses no intent.
//   - Before each action the row is read again. If another environment has advanced the
//     update, this one stops.
//   - What fails for now is tried again when its effect would show. A final refusal ends the
//     update's way forward: it restores what it has changed, see [nodegroup.Fail].
//   - What a step waits for wakes it: a message, or a due row for each wait that ends at a
//     known time.
//
// Nothing is decided here: which nodes go, and why an update fails, is in package nodegroup. Start
// reading at nodegroupupgrade.go.
package nodegroupupgrade
