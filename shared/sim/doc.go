// Package sim is the simulated AWS: as much of ECS, Auto Scaling, EC2's launch templates and
// instances, CloudWatch, Elastic Load Balancing and Cloud Map as Berth calls, and as strict.
//
// The embedded tier ("make run", berth fleet) runs on it, and so do the simulation and most tests:
// what it accepts and AWS refuses would be found in production only.
//
// [Open] puts the services together on one kernel, which owns the lock, the clock, the event queue
// and the file, so that a change that concerns several services is one step. [AWS.ServeProtocols]
// answers the services' own protocols. The sub-packages are a service each:
//
//	kernel       lock, clock, events, file, faults of calls
//	protocol     requests and answers: forms and XML, CBOR, JSON
//	ec2          machine types, launch templates, calls about instances
//	ecs          clusters, task definitions, container instances, tasks, and the agents that run them
//	cloudwatch   metrics, alarms
//	autoscaling  groups, their policies and activities; launches machines that ecs registers
//	servicequotas quotas, what is used of them
//	balancing    target groups and Cloud Map services
//
// A package imports only packages above it in this list. Where a service needs one that it does not
// import, it has an interface for that ([autoscaling.Machines], [balancing.Tasks]) or a hook that
// sim sets.
//
// It schedules nothing: what runs where is what StartTask said. It reports only by events of the
// real shape. Time comes only from a clock and randomness only from a seed, so that a run can be
// repeated. Start at [Open].
package sim
