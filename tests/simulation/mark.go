package simulation

import "berth/shared/cluster"

// Mark is something that has to have happened in some run, or the simulation does not test what it says: finer than a
// [Fault], or brought about by the history. The numbers are those of the list of faults that the simulator offers.
type Mark string

// The marks. What the list has beside them is elsewhere (a missing task definition, 45) or cannot be here: tokens of
// DynamoDB's own (17), loops that Lambda cuts (26), two versions of the code at once (27).
const (
	MarkDeadLetter      Mark = "4 a message went to the dead-letter queue"
	MarkRedriven        Mark = "4 a message came back from the dead-letter queue"
	MarkPartial         Mark = "5 one message of a batch was handed back"
	MarkPoison          Mark = "7 records were given up"
	MarkStaleEvent      Mark = "8 an older event came after a newer one"
	MarkStoreGone       Mark = "13 the store refused every call of a function for minutes"
	MarkLostRace        Mark = "11 a condition no longer held"
	MarkLostVersion     Mark = "11 the placement version had moved on"
	MarkApplied         Mark = "14 an error, and the write took effect"
	MarkNotApplied      Mark = "14 an error, and the write took no effect"
	MarkTooLarge        Mark = "16 a row was too large"
	MarkTTLLag          Mark = "18 a row outlived its time by a minute"
	MarkOutboxLost      Mark = "19 dispatch did not run for minutes"
	MarkCrashBefore     Mark = "20 a function died before a write"
	MarkCrashAfter      Mark = "20 a function died after a write"
	MarkCrashMiddle     Mark = "20 a function died between two writes"
	MarkCrashAPI        Mark = "20 the API died under a request"
	MarkTimeOut         Mark = "21 a function timed out"
	MarkConcurrent      Mark = "22 two invocations of a function at once"
	MarkCold            Mark = "23 a new environment beside an idle one"
	MarkStaleWarm       Mark = "23 an environment that was not used last"
	MarkRefused         Mark = "25 an invocation was refused, concurrency being zero"
	MarkDenied          Mark = "28 ECS denied a call"
	MarkNodeCrash       Mark = "29 an instance crashed under tasks"
	MarkNodeGone        Mark = "29 an instance was terminated under tasks"
	MarkZombie          Mark = "30 an agent came back, its tasks having run on"
	MarkFlappingAgent   Mark = "31 an agent flapped"
	MarkUnhealthyStorm  Mark = "35 all health-checked tasks UNHEALTHY at once"
	MarkStopIgnored     Mark = "36 a task that ignores it was told to stop"
	MarkZoneLost        Mark = "37 a zone was lost"
	MarkResized         Mark = "38 an instance shrank"
	MarkAttribute       Mark = "39 an attribute changed under a task"
	MarkInfeasible      Mark = "44 a task that fits nowhere was asked for"
	MarkRepeated        Mark = "46 the same clientToken, the same parameters"
	MarkDifferent       Mark = "46 the same clientToken, other parameters"
	MarkSpam            Mark = "47 a task was stopped and started over and over"
	MarkMalformed       Mark = "48 a malformed or huge request"
	MarkBadEvent        Mark = "48 a malformed event"
	MarkStartApplied    Mark = "StartTask timed out and had been applied"
	MarkStartLost       Mark = "StartTask timed out and had not been applied"
	MarkStartLate       Mark = "StartTask timed out and was applied later"
	MarkListLate        Mark = "ListTasks did not show a task"
	MarkExtra           Mark = "an extra task was found and stopped"
	MarkForeign         Mark = "a foreign task was recorded"
	MarkWaited          Mark = "a task waited for an instance and got one"
	MarkAttributed      Mark = "a task was placed by a custom attribute"
	MarkShared          Mark = "two tasks shared a GPU"
	MarkPort            Mark = "a task was placed by its host port"
	MarkENI             Mark = "a task was placed by its network interface"
	MarkConstraint      Mark = "a task was placed under a placement constraint"
	MarkSociable        Mark = "a task was placed by what else runs there"
	MarkNodeConstraint  Mark = "a task was placed under a node constraint"
	MarkDomain          Mark = "a task was placed under a domain policy"
	MarkStrategy        Mark = "a task was placed by chained strategies"
	MarkScoring         Mark = "a task was placed by a scoring of its own"
	MarkMetric          Mark = "a task was placed by a metric"
	MarkBuffer          Mark = "a task went into a buffer, or beyond a capacity that is overbooked"
	MarkSoft            Mark = "a soft rule was given up"
	MarkMoved           Mark = "a task was replaced on another instance"
	MarkMoveOver        Mark = "a task stopped, its replacement having taken over"
	MarkRules           Mark = "the rules of a service changed under its tasks"
	MarkRulesRefused    Mark = "rules that cannot be kept were refused"
	MarkConfigured      Mark = "the configuration changed under tasks"
	MarkLoadOperation   Mark = "a load was reported by the operation"
	MarkLoadEvent       Mark = "a load was reported by an event"
	MarkOverloaded      Mark = "reported loads put an instance above its capacity"
	MarkRelieved        Mark = "a task moved off an instance above its capacity"
	MarkMended          Mark = "a task moved to mend a domain rule"
	MarkCordoned        Mark = "an instance became unschedulable under tasks"
	MarkMisfit          Mark = "a task moved off an instance that its node constraint no longer holds on"
	MarkDeployed        Mark = "a service was given another revision"
	MarkCompleted       Mark = "a deployment was completed"
	MarkTripped         Mark = "a circuit breaker failed a deployment"
	MarkRolledBack      Mark = "a deployment was rolled back"
	MarkStalled         Mark = "a deployment failed with nothing to go back to"
	MarkStopRequested   Mark = "a deployment was stopped by request"
	MarkProtected       Mark = "tasks were protected"
	MarkSick            Mark = "a task of a revision that never is healthy ran"
	MarkBalanced        Mark = "a service with a target group was asked for"
	MarkDrained         Mark = "a task was stopped once it was out of its target group"
	MarkTargetUnhealthy Mark = "a target became unhealthy"
	MarkAlarm           Mark = "an alarm went on"
	MarkRebalanced      Mark = "a task moved to balance the zones"
	MarkThrottled       Mark = "a task was started once its revision's throttle let it"
	MarkDying           Mark = "a task was started beside one that had just begun and ended"
	MarkAborted         Mark = "a deployment was stopped by request, and left as it was"
	MarkEarly           Mark = "a deployment was completed before all its tasks ran"
	MarkDeferred        Mark = "a deployment was completed with tasks of earlier revisions left"
	MarkSpot            Mark = "an instance drained by the time EC2 took it back"
	MarkRecommended     Mark = "an instance drained as EC2 might take it back"
	MarkImageGone       Mark = "no task started for minutes, whatever its image"
	MarkProvided        Mark = "a task was placed by its capacity provider"
	MarkFellBack        Mark = "a task waited for its capacity provider and got another"
	MarkMendedRevision  Mark = "customers gave up on a revision"
)

// Marks are all of them.
var Marks = []Mark{
	MarkDeadLetter, MarkRedriven, MarkPartial, MarkPoison, MarkStaleEvent, MarkStoreGone, MarkLostRace, MarkLostVersion, MarkApplied,
	MarkNotApplied, MarkTooLarge, MarkTTLLag, MarkOutboxLost, MarkCrashBefore, MarkCrashAfter, MarkCrashMiddle, MarkCrashAPI,
	MarkTimeOut, MarkConcurrent, MarkCold, MarkStaleWarm, MarkRefused, MarkDenied, MarkNodeCrash, MarkNodeGone, MarkZombie,
	MarkFlappingAgent, MarkUnhealthyStorm, MarkStopIgnored, MarkZoneLost, MarkResized, MarkAttribute, MarkInfeasible,
	MarkRepeated, MarkDifferent, MarkSpam, MarkMalformed, MarkBadEvent, MarkStartApplied, MarkStartLost, MarkStartLate,
	MarkListLate, MarkExtra, MarkForeign, MarkWaited, MarkAttributed, MarkShared, MarkPort, MarkENI, MarkConstraint, MarkSociable,
	MarkNodeConstraint, MarkDomain, MarkStrategy, MarkScoring, MarkMetric, MarkBuffer, MarkSoft, MarkMoved, MarkMoveOver,
	MarkRules, MarkRulesRefused, MarkConfigured, MarkLoadOperation, MarkLoadEvent, MarkOverloaded, MarkRelieved, MarkCordoned,
	MarkMisfit, MarkMended, MarkDeployed, MarkCompleted, MarkTripped, MarkRolledBack, MarkStalled, MarkStopRequested, MarkProtected,
	MarkSick, MarkMendedRevision, MarkBalanced, MarkDrained, MarkTargetUnhealthy, MarkAlarm, MarkRebalanced,
	MarkThrottled, MarkDying, MarkAborted, MarkEarly, MarkDeferred, MarkSpot, MarkRecommended, MarkImageGone, MarkProvided, MarkFellBack,
}

// Marks of runs in which a node group is updated.
const (
	MarkUpdate    Mark = "upgrade: an update began"
	MarkInUse     Mark = "upgrade: an update was refused as another was in progress"
	MarkScaledOut Mark = "upgrade: managed scaling enlarged the group"
	MarkStopped   Mark = "upgrade: an update left other sizes and said why"
	MarkForced    Mark = "upgrade: a task was stopped by force"
	MarkGaveUp    Mark = "upgrade: " + Mark(cluster.PodEvictionFailure)
	MarkNoNodes   Mark = "upgrade: " + Mark(cluster.NodeCreationFailure)
	MarkNoRights  Mark = "upgrade: " + Mark(cluster.UpdateAccessDenied)
	MarkSucceeded Mark = "upgrade: " + Mark(cluster.UpdateSuccessful)
	MarkFailed    Mark = "upgrade: " + Mark(cluster.UpdateFailed)
)

// UpgradeMarks are all of them.
var UpgradeMarks = []Mark{
	MarkUpdate, MarkInUse, MarkScaledOut, MarkStopped, MarkForced, MarkGaveUp, MarkNoNodes, MarkNoRights, MarkSucceeded, MarkFailed,
}

// Coverage counts what happened over any number of runs.
type Coverage struct {
	Marks map[Mark]int
	Hits  [faultCount]int
}

// Add takes in one run's.
func (c *Coverage) Add(o Coverage) {
	if c.Marks == nil {
		c.Marks = map[Mark]int{}
	}
	for m, n := range o.Marks {
		c.Marks[m] += n
	}
	for f, n := range o.Hits {
		c.Hits[f] += n
	}
}

// Missing is what never happened of these.
func (c *Coverage) Missing(faults []Fault, marks []Mark) []string {
	var out []string
	for _, f := range faults {
		if c.Hits[f] == 0 {
			out = append(out, f.String())
		}
	}
	for _, m := range marks {
		if c.Marks[m] == 0 {
			out = append(out, string(m))
		}
	}
	return out
}
