// Package throttling is the throttling function: it records how the starts of services are slowed
// down after failed starts (S7).
//
// What comes in: ECS's events of tasks that stopped without ever having been RUNNING. What goes
// out: for each service a throttle row with the backoff of every revision, and a due row that wakes
// placement for the next attempt. Placement computes the same backoffs from the tasks before it
// starts any; the row is there for users to see, and for the due time.
//
// What is written follows from the tasks' rows and the reports at hand. So events that come twice,
// late or in another order change nothing, and a lost one only delays what users see.
//
// Start reading at [Handler.HandleMessages].
package throttling
