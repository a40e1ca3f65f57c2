// Package balancing simulates target groups of Elastic Load Balancing and services of Cloud Map.
//
// No requests are sent to a target. Its health follows from whether a task runs at its address,
// which package ecs answers through the [Tasks] interface. A Cloud Map instance is healthy until a
// caller says otherwise. Both emit no events: the scheduler has to ask.
//
// [TargetGroups] and [Registries] are the two as Berth's functions call them;
// [TargetGroups.QueryService] and [Registries.ServeJSON] answer the real protocols. They share
// nothing but the kernel. Start at [TargetGroups.RegisterTargets].
package balancing
