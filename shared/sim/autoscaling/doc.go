// Package autoscaling simulates Auto Scaling groups: they launch machines by a launch template,
// terminate them, even out their zones, hold terminations up for lifecycle hooks, and follow a
// metric by a target tracking policy.
//
// [Groups] are the groups as Berth's functions call them; [Groups.QueryService] answers the real
// protocol, for the AWS CLI and Terraform. Machines register through the [Machines] interface,
// which package ecs implements. Launch templates come from package ec2, metrics and alarms from
// package cloudwatch. Termination hooks emit the events that EventBridge would deliver.
//
// Every change of a group ends in reconcileGroup, which launches and terminates until the group has
// its desired capacity. An instance goes
//
//	Pending -> InService -> (Terminating:Wait ->) gone
//
// and registers with its cluster when it comes into service, or later, or never ([LaunchFault]).
// Only instances that are Pending or InService count towards the desired capacity, so that a
// replacement is launched while a hook still holds up a termination.
//
// The files: group.go has the life of an instance, launch.go what is launched and where, policy.go
// the policies; api.go and activity.go are the face to Berth, the rest the protocol. Start at
// reconcileGroup.
package autoscaling
