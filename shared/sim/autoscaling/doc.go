// Package autoscaling simulates Auto Scaling groups: they launch machines by a launch template,
// terminate them, even out their zones, hold terminations up for lifecycle hooks, and follow a
// metric by a target tracking policy.
//
// Machines register through the [Machines] interface, which package ecs implements.
package autoscaling
