// Package cluster holds the nouns of the scheduler: instances, tasks, services, task definitions,
// what they need and offer, and the rows that keep them. It decides nothing, and it never reads a
// clock, a store or the network.
package cluster
