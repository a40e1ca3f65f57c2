package metrics

// EventWay is the way of an event that says a task has STOPPED, to the start of the task that replaces it. Its hops
// meet in rows of the table, and in values that one function returns and another one takes.
//
// When one of these functions moves or is renamed, change its name here too: measuring fails until then.
var EventWay = []Hop{
	{"event to report", "shared/handler.TaskStateChange.Messages", "shared/handler.observer.task"},
	{"event's JSON to report", "shared/awsevent.Decoder.Decode", "shared/cluster.ECSTask.StopCode"},
	{"report to write", "shared/handler.observer.task", "shared/state.State.Write"},
	{"write to row", "shared/state.Write.Apply", "shared/cluster.Task.Stopped"},
	{"record to snapshot", "shared/handler.Placement.Records", "shared/snapshot.Snapshot.See"},
	{"within the snapshot", "shared/snapshot.Snapshot.See", "shared/snapshot.InstanceView.Tasks"},
	{"record to work", "shared/handler.Placement.Records", "shared/handler.work.add"},
	{"within the work", "shared/handler.work.add", "shared/handler.work.services"},
	{"record to decision", "shared/handler.Placement.Records", "shared/handler.decide"},
	{"decision to reconcile", "shared/handler.decide", "shared/service.Reconcile"},
	{"tasks judged", "shared/service.Reconcile", "shared/service.census.condition"},
	{"how many to start", "shared/service.Reconcile", "shared/service.Plan.Starts"},
	{"decision to place", "shared/handler.decide", "shared/placement.Engine.PlaceInto"},
	{"where to start", "shared/placement.Engine.PlaceInto", "shared/placement.pass.placed"},
	{"which instances fit", "shared/placement.Engine.PlaceInto", "shared/placement.shape.fitness"},
	{"which of them is best", "shared/placement.Engine.PlaceInto", "shared/placement.ranking.better"},
	{"start to plan", "shared/handler.decide", "shared/state.Outbox.Starts"},
	{"plan to rows", "shared/handler.Placement.Records", "shared/state.State.Commit"},
	{"row to claim", "shared/handler.Dispatch.Records", "shared/state.Write.Claim"},
	{"claim to StartTask", "shared/handler.Dispatch.Records", "shared/handler.ECS.StartTask"},
}
