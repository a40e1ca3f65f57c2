// Package handler holds what the functions share: the ports to the world outside, the settings, the
// figures that operators watch. Each function has a package of its own below it: an event comes in,
// the pure core decides, the outcome is committed. None knows an AWS type, nor in which tier it
// runs.
//
// The tests of this package drive several functions together, on an embedded store and a simulated
// ECS.
package handler
