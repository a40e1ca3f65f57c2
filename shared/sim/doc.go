// Package sim is the simulated AWS: as much of ECS, Auto Scaling, EC2's launch templates,
// CloudWatch, Elastic Load Balancing and Cloud Map as Berth calls, and as strict.
//
// [Open] puts the services together on one kernel, which owns the lock, the clock, the event queue
// and the file, so that a change that concerns several services is one step. [AWS.ServeProtocols]
// answers the services' own protocols. The sub-packages are a service each:
//
//	kernel       lock, clock, events, file, faults of calls
//	protocol     the Query protocol: forms in, XML out
//	ecs          clusters, task definitions, container instances, tasks, and the agents that run them
//	ec2          machine types, launch templates
//	cloudwatch   metrics, alarms
//	autoscaling  groups, their policies and activities; launches machines that ecs registers
//	balancing    target groups and Cloud Map services
//
// It schedules nothing: what runs where is what StartTask said. It reports only by events of the
// real shape. Time comes only from a clock and randomness only from a seed, so that a run can be
// repeated.
package sim
