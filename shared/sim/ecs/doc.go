// Package ecs simulates ECS and its agents: clusters, task definitions, container instances and
// tasks.
//
// [Service] is ECS as Berth's functions call it. [Service.Endpoint] speaks the ECS protocol with
// the operations of [Clusters], [Definitions], [Instances], [Attributes], [Tags] and [Tasks].
// [Machines] is what happens to machines and tasks without a call: they join, crash, lose their
// connection.
//
// There are two views of a task. ECS has what agents reported; the agent has what goes on. They
// differ while an agent is disconnected.
package ecs
