// Package dispatch makes the world match what was committed: it reads the outbox, claims tasks, starts and stops them at ECS,
// registers them with load balancers, fires due timers and publishes events. No other function acts on tasks.
package dispatch
