// Package ecs simulates ECS and its agents: clusters, task definitions, container instances and
// tasks.
//
// It has three faces. [Service] is ECS as Berth's functions call it, with Berth's nouns.
// [Service.Endpoint] speaks the ECS protocol with the operations of [Clusters], [Definitions],
// [Instances], [Attributes], [Tags] and [Tasks], for the AWS CLI and SDKs. [Machines] is what
// happens to machines and tasks without a call: they join, crash, lose their connection. Packages
// autoscaling and balancing use it through interfaces of their own ([Service.Launch],
// [Service.TaskAt]). What goes out are events of the shape that EventBridge delivers.
//
// There are two views of a task. ECS has what agents reported; the agent has what runs. They
// differ while an agent is disconnected. A report goes from [agents].sendReport, on the machine, to
// applyReport, in ECS.
//
// Invariants:
//
//   - ECS schedules nothing here: a task runs where StartTask put it, or not at all.
//   - What tasks hold never exceeds what their instance has, unless it was made smaller.
//   - Versions of one resource only grow, and none is emitted with two contents, also across a
//     crash.
//   - A task that ECS holds STOPPED never changes again.
//   - The same seed and the same calls at the same times give the same ids, events and times.
//
// The files: tables.go has what is stored; start.go how a task comes and goes; agent.go what it
// does in between; control.go the mishaps. The rest is one file per kind of operation. Start at
// startTasks in start.go.
package ecs
