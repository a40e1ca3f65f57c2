// Package taskstatechange writes down what ECS reports of tasks and container instances, and
// compares the state with ECS in a sweep, as events can be lost.
package taskstatechange
