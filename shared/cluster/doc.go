// Package cluster has the nouns of the scheduler: container instances, tasks, services and their
// deployments, task definitions, capacity providers, node groups, and what these need and offer.
package cluster
