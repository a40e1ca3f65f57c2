// Package quota shares the calls that ECS allows an account among all that wait for them: StartTask
// and StopTask have one rate, and a thousand stops must not hold up a start.
//
// What comes in: the bucket of calls, what a round of dispatch wants, and the time. What goes out:
// the bucket after a lease ([Lease]), and how the leased calls are divided among the rows of the
// outbox ([Divide]). The package reads no clock and no store.
//
// Invariants:
//   - A bucket never gives more calls than have flowed in.
//   - While both starts and stops wait for calls, each gets half of what flows in. What one does
//     not need goes to the other.
//   - Owners get their calls in rotation, so that a service with few tasks does not wait for one
//     with many.
//
// Start with lease.go.
package quota
