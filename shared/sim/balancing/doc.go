// Package balancing simulates target groups of Elastic Load Balancing and services of Cloud Map.
//
// Nobody sends requests to a target. Its health follows from whether a task runs at its address,
// which package ecs tells through the [Tasks] interface.
package balancing
