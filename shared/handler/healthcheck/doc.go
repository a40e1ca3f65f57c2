// Package healthcheck is the health-check function: it asks for what ECS does not report, namely
// the health of containers that have health checks (S6), that of registered tasks in their target groups and
// in Cloud Map (S6, S9), and the CloudWatch alarms of deployments in progress (S8).
//
// What comes in: a schedule each minute, questions of task-state-change for the first health of tasks, and events
// of alarms that changed state. What goes out: rows of tasks, target rows with the health that was
// reported, alarm watches with what was seen of a deployment's
// alarms, and outbox entries that ask dispatch to repeat registrations. Nothing is decided here.
// The stream of these rows wakes placement, which replaces unhealthy tasks and fails deployments.
//
// Invariants:
//   - A row is written only if what it says has changed, so a healthy cluster causes no
//     writes.
//   - What cannot be asked changes nothing: no answer is not "unhealthy". Nor does an unknown health replace a
//     known one.
//   - A cluster without registrations, health checks and alarms costs one read of an empty range and one of
//     its version.
//
// Start reading at healthcheck.go; container.go asks ECS, alarm.go watches alarms, watchlist.go remembers which
// services to ask about, retry.go repeats failed registrations.
package healthcheck
