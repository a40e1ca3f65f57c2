package coverage

import "berth/shared/cluster"

// A Point is something that must have happened in some run: a variant of a fault, an action, or a
// rule that decided something. A leading number is the fault's in the list of faults of the
// requirements, of which some are tested elsewhere: a missing task definition (45), the store's own
// tokens (17), loops that Lambda cuts (26), and two versions of the code at once (27).
type Point string

// The points of the general kind of run.
const (
	DeadLetter      Point = "4 a message went to the dead-letter queue"
	Redriven        Point = "4 a message came back from the dead-letter queue"
	Partial         Point = "5 one message of a batch was returned to the queue"
	Poison          Point = "7 records of the stream were discarded"
	StaleEvent      Point = "8 an older event arrived after a newer one"
	StoreGone       Point = "13 a function could not reach the store for minutes"
	LostRace        Point = "11 a condition no longer held"
	LostVersion     Point = "11 the placement version had moved on"
	Applied         Point = "14 a write failed and took effect"
	NotApplied      Point = "14 a write failed and took no effect"
	TooLarge        Point = "16 a row was too large"
	TTLLag          Point = "18 a row outlived its time by a minute"
	OutboxLost      Point = "19 dispatch did not run for minutes"
	CrashBefore     Point = "20 a function died before a write"
	CrashAfter      Point = "20 a function died after a write"
	CrashMiddle     Point = "20 a function died between two writes"
	CrashAPI        Point = "20 the API died while it served a request"
	TimeOut         Point = "21 a function timed out"
	Concurrent      Point = "22 two invocations of a function at once"
	Cold            Point = "23 a new environment was started although one was idle"
	StaleWarm       Point = "23 an environment ran that was not the last used"
	Refused         Point = "25 an invocation was refused because concurrency was zero"
	Denied          Point = "28 ECS denied a call"
	NodeCrash       Point = "29 an instance with tasks crashed"
	NodeGone        Point = "29 an instance with tasks was terminated"
	Zombie          Point = "30 an agent reconnected, and its tasks had kept running"
	FlappingAgent   Point = "31 an agent flapped"
	UnhealthyStorm  Point = "35 all health-checked tasks UNHEALTHY at once"
	StopIgnored     Point = "36 a task ignored that it should stop"
	ZoneLost        Point = "37 a zone was lost"
	Resized         Point = "38 an instance shrank"
	Attribute       Point = "39 an attribute of an instance with tasks changed"
	Infeasible      Point = "44 a task was requested that fits no instance"
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
	Sociable        Point = "a task was placed by the other tasks on an instance"
	NodeConstraint  Point = "a task was placed under a node constraint"
	Domain          Point = "a task was placed under a domain policy"
	Strategy        Point = "a task was placed by chained strategies"
	Scoring         Point = "a task was placed by its service's scoring"
	Metric          Point = "a task was placed by a metric"
	Buffer          Point = "a task was placed in a buffer or overbooked capacity"
	Soft            Point = "a soft rule was relaxed"
	Moved           Point = "a task was replaced on another instance"
	MoveOver        Point = "a task stopped after its replacement had started"
	Rules           Point = "the rules of a service with tasks changed"
	RulesRefused    Point = "rules that cannot be satisfied were refused"
	Configured      Point = "the configuration of a cluster with tasks changed"
	LoadOperation   Point = "a load was reported by the operation"
	LoadEvent       Point = "a load was reported by an event"
	Overloaded      Point = "reported loads put an instance above its capacity"
	Relieved        Point = "a task moved off an instance above its capacity"
	Mended          Point = "a task moved to satisfy a domain rule"
	Cordoned        Point = "an instance with tasks became unschedulable"
	Misfit          Point = "a task moved off an instance that no longer satisfied its node constraint"
	Deployed        Point = "a service was given another revision"
	Completed       Point = "a deployment was completed"
	Tripped         Point = "a circuit breaker failed a deployment"
	RolledBack      Point = "a deployment was rolled back"
	Stalled         Point = "a deployment failed and there was no revision to roll back to"
	StopRequested   Point = "a deployment was stopped by request"
	Protected       Point = "tasks were protected"
	Sick            Point = "a task ran of a revision that never becomes healthy"
	Balanced        Point = "a service with a target group was requested"
	Drained         Point = "a task was stopped after its connections were drained"
	TargetUnhealthy Point = "a target became unhealthy"
	Alarm           Point = "an alarm fired"
	Rebalanced      Point = "a task moved to balance the zones"
	Throttled       Point = "a task was started when its revision's throttle allowed it"
	Dying           Point = "a task was started after one that had just started and stopped"
	Aborted         Point = "a deployment was aborted by request"
	Early           Point = "a deployment completed before all its tasks ran"
	Deferred        Point = "a deployment completed with tasks of earlier revisions left"
	Spot            Point = "an instance was drained when EC2 interrupted it"
	Recommended     Point = "an instance was drained because EC2 might interrupt it"
	ImageGone       Point = "no image could be pulled for minutes"
	Provided        Point = "a task was placed by its capacity provider"
	FellBack        Point = "a task waited for its capacity provider and was placed by another"
	MendedRevision  Point = "a caller replaced a broken revision"
	Tolerated       Point = "a task was placed on an instance with a taint that it tolerates"
	Evicted         Point = "a task left an instance because of a taint"
	Limited         Point = "a task was placed under the limits of its application"
	TaskSetScaled   Point = "a task set was scaled"
	TaskSetPrimary  Point = "a task set became the primary one"
	TaskSetDeleted  Point = "a task set was deleted while the service had others"
)

// Points lists the points of the general kind of run.
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
	Tolerated, Evicted, Limited, TaskSetScaled, TaskSetPrimary, TaskSetDeleted,
}

// BalanceMoved is a point of runs with balancing.
const BalanceMoved Point = "a task was moved to balance the cluster"

// The points of runs that update a node group.
const (
	Update    Point = "upgrade: an update began"
	InUse     Point = "upgrade: an update was refused because another was in progress"
	ScaledOut Point = "upgrade: managed scaling enlarged the group"
	Stopped   Point = "upgrade: an update left other sizes and gave the reason"
	Forced    Point = "upgrade: a task was stopped by force"
	GaveUp    Point = "upgrade: " + Point(cluster.PodEvictionFailure)
	NoNodes   Point = "upgrade: " + Point(cluster.NodeCreationFailure)
	NoRights  Point = "upgrade: " + Point(cluster.UpdateAccessDenied)
	Succeeded Point = "upgrade: " + Point(cluster.UpdateSuccessful)
	Failed    Point = "upgrade: " + Point(cluster.UpdateFailed)
)

// UpgradePoints lists the points of runs that update a node group.
var UpgradePoints = []Point{
	Update, InUse, ScaledOut, Stopped, Forced, GaveUp, NoNodes, NoRights, Succeeded, Failed,
}
