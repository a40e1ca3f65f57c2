package coverage

import "berth/shared/cluster"

// Point is something that has to have happened in some run, or the simulation does not test what it says: finer than a
// [Fault], or brought about by the history. The numbers are those of the list of faults that the simulator offers.
type Point string

// The marks. What the list has beside them is elsewhere (a missing task definition, 45) or cannot be here: tokens of
// DynamoDB's own (17), loops that Lambda cuts (26), two versions of the code at once (27).
const (
	DeadLetter      Point = "4 a message went to the dead-letter queue"
	Redriven        Point = "4 a message came back from the dead-letter queue"
	Partial         Point = "5 one message of a batch was handed back"
	Poison          Point = "7 records were given up"
	StaleEvent      Point = "8 an older event came after a newer one"
	StoreGone       Point = "13 the store refused every call of a function for minutes"
	LostRace        Point = "11 a condition no longer held"
	LostVersion     Point = "11 the placement version had moved on"
	Applied         Point = "14 an error, and the write took effect"
	NotApplied      Point = "14 an error, and the write took no effect"
	TooLarge        Point = "16 a row was too large"
	TTLLag          Point = "18 a row outlived its time by a minute"
	OutboxLost      Point = "19 dispatch did not run for minutes"
	CrashBefore     Point = "20 a function died before a write"
	CrashAfter      Point = "20 a function died after a write"
	CrashMiddle     Point = "20 a function died between two writes"
	CrashAPI        Point = "20 the API died under a request"
	TimeOut         Point = "21 a function timed out"
	Concurrent      Point = "22 two invocations of a function at once"
	Cold            Point = "23 a new environment beside an idle one"
	StaleWarm       Point = "23 an environment that was not used last"
	Refused         Point = "25 an invocation was refused, concurrency being zero"
	Denied          Point = "28 ECS denied a call"
	NodeCrash       Point = "29 an instance crashed under tasks"
	NodeGone        Point = "29 an instance was terminated under tasks"
	Zombie          Point = "30 an agent came back, its tasks having run on"
	FlappingAgent   Point = "31 an agent flapped"
	UnhealthyStorm  Point = "35 all health-checked tasks UNHEALTHY at once"
	StopIgnored     Point = "36 a task that ignores it was told to stop"
	ZoneLost        Point = "37 a zone was lost"
	Resized         Point = "38 an instance shrank"
	Attribute       Point = "39 an attribute changed under a task"
	Infeasible      Point = "44 a task that fits nowhere was asked for"
	Repeated        Point = "46 the same clientToken, the same parameters"
	Different       Point = "46 the same clientToken, other parameters"
	Spam            Point = "47 a task was stopped and started over and over"
	Malformed       Point = "48 a malformed or huge request"
	BadEvent        Point = "48 a malformed event"
	StartApplied    Point = "StartTask timed out and had been applied"
	StartLost       Point = "StartTask timed out and had not been applied"
	StartLate       Point = "StartTask timed out and was applied later"
	ListLate        Point = "ListTasks did not show a task"
	Extra           Point = "an extra task was found and stopped"
	Foreign         Point = "a foreign task was recorded"
	Waited          Point = "a task waited for an instance and got one"
	Attributed      Point = "a task was placed by a custom attribute"
	Shared          Point = "two tasks shared a GPU"
	Port            Point = "a task was placed by its host port"
	ENI             Point = "a task was placed by its network interface"
	Constraint      Point = "a task was placed under a placement constraint"
	Sociable        Point = "a task was placed by what else runs there"
	NodeConstraint  Point = "a task was placed under a node constraint"
	Domain          Point = "a task was placed under a domain policy"
	Strategy        Point = "a task was placed by chained strategies"
	Scoring         Point = "a task was placed by a scoring of its own"
	Metric          Point = "a task was placed by a metric"
	Buffer          Point = "a task went into a buffer, or beyond a capacity that is overbooked"
	Soft            Point = "a soft rule was given up"
	Moved           Point = "a task was replaced on another instance"
	MoveOver        Point = "a task stopped, its replacement having taken over"
	Rules           Point = "the rules of a service changed under its tasks"
	RulesRefused    Point = "rules that cannot be kept were refused"
	Configured      Point = "the configuration changed under tasks"
	LoadOperation   Point = "a load was reported by the operation"
	LoadEvent       Point = "a load was reported by an event"
	Overloaded      Point = "reported loads put an instance above its capacity"
	Relieved        Point = "a task moved off an instance above its capacity"
	Mended          Point = "a task moved to mend a domain rule"
	Cordoned        Point = "an instance became unschedulable under tasks"
	Misfit          Point = "a task moved off an instance that its node constraint no longer holds on"
	Deployed        Point = "a service was given another revision"
	Completed       Point = "a deployment was completed"
	Tripped         Point = "a circuit breaker failed a deployment"
	RolledBack      Point = "a deployment was rolled back"
	Stalled         Point = "a deployment failed with nothing to go back to"
	StopRequested   Point = "a deployment was stopped by request"
	Protected       Point = "tasks were protected"
	Sick            Point = "a task of a revision that never is healthy ran"
	Balanced        Point = "a service with a target group was asked for"
	Drained         Point = "a task was stopped once it was out of its target group"
	TargetUnhealthy Point = "a target became unhealthy"
	Alarm           Point = "an alarm went on"
	Rebalanced      Point = "a task moved to balance the zones"
	Throttled       Point = "a task was started once its revision's throttle let it"
	Dying           Point = "a task was started beside one that had just begun and ended"
	Aborted         Point = "a deployment was stopped by request, and left as it was"
	Early           Point = "a deployment was completed before all its tasks ran"
	Deferred        Point = "a deployment was completed with tasks of earlier revisions left"
	Spot            Point = "an instance drained by the time EC2 took it back"
	Recommended     Point = "an instance drained as EC2 might take it back"
	ImageGone       Point = "no task started for minutes, whatever its image"
	Provided        Point = "a task was placed by its capacity provider"
	FellBack        Point = "a task waited for its capacity provider and got another"
	MendedRevision  Point = "customers gave up on a revision"
)

// Points are all of them.
var Points = []Point{
	DeadLetter, Redriven, Partial, Poison, StaleEvent, StoreGone, LostRace, LostVersion, Applied,
	NotApplied, TooLarge, TTLLag, OutboxLost, CrashBefore, CrashAfter, CrashMiddle, CrashAPI,
	TimeOut, Concurrent, Cold, StaleWarm, Refused, Denied, NodeCrash, NodeGone, Zombie,
	FlappingAgent, UnhealthyStorm, StopIgnored, ZoneLost, Resized, Attribute, Infeasible,
	Repeated, Different, Spam, Malformed, BadEvent, StartApplied, StartLost, StartLate,
	ListLate, Extra, Foreign, Waited, Attributed, Shared, Port, ENI, Constraint, Sociable,
	NodeConstraint, Domain, Strategy, Scoring, Metric, Buffer, Soft, Moved, MoveOver,
	Rules, RulesRefused, Configured, LoadOperation, LoadEvent, Overloaded, Relieved, Cordoned,
	Misfit, Mended, Deployed, Completed, Tripped, RolledBack, Stalled, StopRequested, Protected,
	Sick, MendedRevision, Balanced, Drained, TargetUnhealthy, Alarm, Rebalanced,
	Throttled, Dying, Aborted, Early, Deferred, Spot, Recommended, ImageGone, Provided, FellBack,
}

// Marks of runs in which a node group is updated.
const (
	Update    Point = "upgrade: an update began"
	InUse     Point = "upgrade: an update was refused as another was in progress"
	ScaledOut Point = "upgrade: managed scaling enlarged the group"
	Stopped   Point = "upgrade: an update left other sizes and said why"
	Forced    Point = "upgrade: a task was stopped by force"
	GaveUp    Point = "upgrade: " + Point(cluster.PodEvictionFailure)
	NoNodes   Point = "upgrade: " + Point(cluster.NodeCreationFailure)
	NoRights  Point = "upgrade: " + Point(cluster.UpdateAccessDenied)
	Succeeded Point = "upgrade: " + Point(cluster.UpdateSuccessful)
	Failed    Point = "upgrade: " + Point(cluster.UpdateFailed)
)

// UpgradePoints are all of them.
var UpgradePoints = []Point{
	Update, InUse, ScaledOut, Stopped, Forced, GaveUp, NoNodes, NoRights, Succeeded, Failed,
}
