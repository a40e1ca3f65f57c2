// Package managedscaling is the managed-scaling function: it keeps the Auto Scaling groups of
// capacity providers at the size that the tasks need (C1 to C8).
//
// [Handler.RunSchedule] runs once a minute for every cluster that has capacity providers, and
// [Handler.HandleMessages] in between when an alarm fires or an instance is being terminated. For
// each provider the function does the following (reconcile.go):
//
//  1. make its alarms, policy and lifecycle hook (attach.go),
//  2. read the groups and the cluster, and let package scaling decide (pass.go, read.go, input.go,
//     elsewhere.go),
//  3. write what must be remembered (history.go),
//  4. carry out the decision (act.go),
//  5. drain instances that are being terminated (terminate.go), and emit events (history.go).
//
// Before that it examines the groups of new and changed providers (providers.go) and removes what
// was made for providers that a cluster no longer has (detach.go); afterwards it records what
// became of a cluster's attachments (report.go).
//
// What must be remembered is written before anything is done. A process that dies in between must
// not let the next one scale in too soon, or let an update of the nodes remove what is about to
// come. What is lost then is a wait. What fails is decided anew the next minute.
//
// Several environments may run at the same time. Each write has a revision: the environment that
// loses a race leaves the provider alone.
//
// Nothing is decided here: sizes, protection and consolidation are in package scaling. Start
// reading at managedscaling.go, then reconcile.go.
package managedscaling
