// Package balancing simulates target groups and Classic Load Balancers of Elastic Load Balancing,
// and services of Cloud Map.
//
// No requests are sent to a target. Its health follows from whether a task runs at its address,
// which package ecs answers through the [Tasks] interface. A Cloud Map instance is healthy until a
// caller says otherwise. None of them emits events: the scheduler has to ask.
//
// [LoadBalancers] and [Registries] are what Berth's functions call; [TargetGroups.QueryService],
// [ClassicBalancers.QueryService] and [Registries.ServeJSON] answer the real protocols. They share
// nothing but the kernel. Start at [TargetGroups.RegisterTargets].
package balancing
