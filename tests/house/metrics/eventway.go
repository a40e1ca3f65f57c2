package metrics

// EventWay is the way of an event that says a task has STOPPED, to the start of the task that
// replaces it. Its hops meet in rows of the table, and in values that one function returns and
// another one takes.
//
// When one of these functions moves or is renamed, change its name here too: measuring fails until
// then.
var EventWay = []Hop{
	{"event to report", "shared/handler/taskstatechange.Handler.HandleMessages",
		"shared/observe.Observer.recordOwnTask"},
	{"event's JSON to report", "shared/awsevent.Decoder.Decode", "shared/cluster.ECSTask.StopCode"},
	{"report to write", "shared/observe.Observer.recordOwnTask", "shared/state.Store.Write"},
	{"write to row", "shared/state.Write.Apply", "shared/cluster.Task.Stopped"},
	{"record to snapshot", "shared/handler/placement.Handler.HandleRecords", "shared/snapshot.Snapshot.ApplyRecord"},
	{"within the snapshot", "shared/snapshot.Snapshot.Put", "shared/snapshot.InstanceView.Tasks"},
	{"record to changes", "shared/handler/placement.Handler.HandleRecords", "shared/decide.Changes.addTask"},
	{"within the changes", "shared/decide.Changes.addTask", "shared/decide.Changes.services"},
	{"record to decision", "shared/handler/placement.Handler.HandleRecords", "shared/decide.Decide"},
	{"decision to service", "shared/decide.Decide", "shared/decide.reconcileService"},
	{"service to reconcile", "shared/decide.reconcileService", "shared/service.Reconcile"},
	{"tasks judged", "shared/service.Reconcile", "shared/service.conditionOf"},
	{"how many to start", "shared/service.Reconcile", "shared/service.Plan.Starts"},
	{"plan to starts", "shared/decide.reconcileService", "shared/decide.placeDemand"},
	{"starts to place", "shared/decide.placeDemand", "shared/placement.Engine.PlaceInto"},
	{"where to start", "shared/placement.Engine.PlaceInto", "shared/placement.placer.placed"},
	{"which instances fit", "shared/placement.Engine.PlaceInto", "shared/placement.shape.feasibilityOf"},
	{"which of them is best", "shared/placement.Engine.PlaceInto", "shared/placement.chooser.isBetterThan"},
	{"placed to commits", "shared/decide.placeDemand", "shared/state.Outbox.Starts"},
	{"plan to rows", "shared/handler/placement.Handler.HandleRecords", "shared/state.Store.Commit"},
	{"row to claim", "shared/handler/dispatch.Handler.HandleRecords", "shared/state.Write.Claim"},
	{"claim to StartTask", "shared/handler/dispatch.Handler.HandleRecords", "shared/handler.ECS.StartTask"},
}
