package simulation

import "berth/shared/cluster"

// CoveragePoint is something that has to have happened in some run, or the simulation does not test what it says: finer than a
// [Fault], or brought about by the history. The numbers are those of the list of faults that the simulator offers.
type CoveragePoint string

// The marks. What the list has beside them is elsewhere (a missing task definition, 45) or cannot be here: tokens of
// DynamoDB's own (17), loops that Lambda cuts (26), two versions of the code at once (27).
const (
	CoverDeadLetter      CoveragePoint = "4 a message went to the dead-letter queue"
	CoverRedriven        CoveragePoint = "4 a message came back from the dead-letter queue"
	CoverPartial         CoveragePoint = "5 one message of a batch was handed back"
	CoverPoison          CoveragePoint = "7 records were given up"
	CoverStaleEvent      CoveragePoint = "8 an older event came after a newer one"
	CoverStoreGone       CoveragePoint = "13 the store refused every call of a function for minutes"
	CoverLostRace        CoveragePoint = "11 a condition no longer held"
	CoverLostVersion     CoveragePoint = "11 the placement version had moved on"
	CoverApplied         CoveragePoint = "14 an error, and the write took effect"
	CoverNotApplied      CoveragePoint = "14 an error, and the write took no effect"
	CoverTooLarge        CoveragePoint = "16 a row was too large"
	CoverTTLLag          CoveragePoint = "18 a row outlived its time by a minute"
	CoverOutboxLost      CoveragePoint = "19 dispatch did not run for minutes"
	CoverCrashBefore     CoveragePoint = "20 a function died before a write"
	CoverCrashAfter      CoveragePoint = "20 a function died after a write"
	CoverCrashMiddle     CoveragePoint = "20 a function died between two writes"
	CoverCrashAPI        CoveragePoint = "20 the API died under a request"
	CoverTimeOut         CoveragePoint = "21 a function timed out"
	CoverConcurrent      CoveragePoint = "22 two invocations of a function at once"
	CoverCold            CoveragePoint = "23 a new environment beside an idle one"
	CoverStaleWarm       CoveragePoint = "23 an environment that was not used last"
	CoverRefused         CoveragePoint = "25 an invocation was refused, concurrency being zero"
	CoverDenied          CoveragePoint = "28 ECS denied a call"
	CoverNodeCrash       CoveragePoint = "29 an instance crashed under tasks"
	CoverNodeGone        CoveragePoint = "29 an instance was terminated under tasks"
	CoverZombie          CoveragePoint = "30 an agent came back, its tasks having run on"
	CoverFlappingAgent   CoveragePoint = "31 an agent flapped"
	CoverUnhealthyStorm  CoveragePoint = "35 all health-checked tasks UNHEALTHY at once"
	CoverStopIgnored     CoveragePoint = "36 a task that ignores it was told to stop"
	CoverZoneLost        CoveragePoint = "37 a zone was lost"
	CoverResized         CoveragePoint = "38 an instance shrank"
	CoverAttribute       CoveragePoint = "39 an attribute changed under a task"
	CoverInfeasible      CoveragePoint = "44 a task that fits nowhere was asked for"
	CoverRepeated        CoveragePoint = "46 the same clientToken, the same parameters"
	CoverDifferent       CoveragePoint = "46 the same clientToken, other parameters"
	CoverSpam            CoveragePoint = "47 a task was stopped and started over and over"
	CoverMalformed       CoveragePoint = "48 a malformed or huge request"
	CoverBadEvent        CoveragePoint = "48 a malformed event"
	CoverStartApplied    CoveragePoint = "StartTask timed out and had been applied"
	CoverStartLost       CoveragePoint = "StartTask timed out and had not been applied"
	CoverStartLate       CoveragePoint = "StartTask timed out and was applied later"
	CoverListLate        CoveragePoint = "ListTasks did not show a task"
	CoverExtra           CoveragePoint = "an extra task was found and stopped"
	CoverForeign         CoveragePoint = "a foreign task was recorded"
	CoverWaited          CoveragePoint = "a task waited for an instance and got one"
	CoverAttributed      CoveragePoint = "a task was placed by a custom attribute"
	CoverShared          CoveragePoint = "two tasks shared a GPU"
	CoverPort            CoveragePoint = "a task was placed by its host port"
	CoverENI             CoveragePoint = "a task was placed by its network interface"
	CoverConstraint      CoveragePoint = "a task was placed under a placement constraint"
	CoverSociable        CoveragePoint = "a task was placed by what else runs there"
	CoverNodeConstraint  CoveragePoint = "a task was placed under a node constraint"
	CoverDomain          CoveragePoint = "a task was placed under a domain policy"
	CoverStrategy        CoveragePoint = "a task was placed by chained strategies"
	CoverScoring         CoveragePoint = "a task was placed by a scoring of its own"
	CoverMetric          CoveragePoint = "a task was placed by a metric"
	CoverBuffer          CoveragePoint = "a task went into a buffer, or beyond a capacity that is overbooked"
	CoverSoft            CoveragePoint = "a soft rule was given up"
	CoverMoved           CoveragePoint = "a task was replaced on another instance"
	CoverMoveOver        CoveragePoint = "a task stopped, its replacement having taken over"
	CoverRules           CoveragePoint = "the rules of a service changed under its tasks"
	CoverRulesRefused    CoveragePoint = "rules that cannot be kept were refused"
	CoverConfigured      CoveragePoint = "the configuration changed under tasks"
	CoverLoadOperation   CoveragePoint = "a load was reported by the operation"
	CoverLoadEvent       CoveragePoint = "a load was reported by an event"
	CoverOverloaded      CoveragePoint = "reported loads put an instance above its capacity"
	CoverRelieved        CoveragePoint = "a task moved off an instance above its capacity"
	CoverMended          CoveragePoint = "a task moved to mend a domain rule"
	CoverCordoned        CoveragePoint = "an instance became unschedulable under tasks"
	CoverMisfit          CoveragePoint = "a task moved off an instance that its node constraint no longer holds on"
	CoverDeployed        CoveragePoint = "a service was given another revision"
	CoverCompleted       CoveragePoint = "a deployment was completed"
	CoverTripped         CoveragePoint = "a circuit breaker failed a deployment"
	CoverRolledBack      CoveragePoint = "a deployment was rolled back"
	CoverStalled         CoveragePoint = "a deployment failed with nothing to go back to"
	CoverStopRequested   CoveragePoint = "a deployment was stopped by request"
	CoverProtected       CoveragePoint = "tasks were protected"
	CoverSick            CoveragePoint = "a task of a revision that never is healthy ran"
	CoverBalanced        CoveragePoint = "a service with a target group was asked for"
	CoverDrained         CoveragePoint = "a task was stopped once it was out of its target group"
	CoverTargetUnhealthy CoveragePoint = "a target became unhealthy"
	CoverAlarm           CoveragePoint = "an alarm went on"
	CoverRebalanced      CoveragePoint = "a task moved to balance the zones"
	CoverThrottled       CoveragePoint = "a task was started once its revision's throttle let it"
	CoverDying           CoveragePoint = "a task was started beside one that had just begun and ended"
	CoverAborted         CoveragePoint = "a deployment was stopped by request, and left as it was"
	CoverEarly           CoveragePoint = "a deployment was completed before all its tasks ran"
	CoverDeferred        CoveragePoint = "a deployment was completed with tasks of earlier revisions left"
	CoverSpot            CoveragePoint = "an instance drained by the time EC2 took it back"
	CoverRecommended     CoveragePoint = "an instance drained as EC2 might take it back"
	CoverImageGone       CoveragePoint = "no task started for minutes, whatever its image"
	CoverProvided        CoveragePoint = "a task was placed by its capacity provider"
	CoverFellBack        CoveragePoint = "a task waited for its capacity provider and got another"
	CoverMendedRevision  CoveragePoint = "customers gave up on a revision"
)

// CoveragePoints are all of them.
var CoveragePoints = []CoveragePoint{
	CoverDeadLetter, CoverRedriven, CoverPartial, CoverPoison, CoverStaleEvent, CoverStoreGone, CoverLostRace, CoverLostVersion, CoverApplied,
	CoverNotApplied, CoverTooLarge, CoverTTLLag, CoverOutboxLost, CoverCrashBefore, CoverCrashAfter, CoverCrashMiddle, CoverCrashAPI,
	CoverTimeOut, CoverConcurrent, CoverCold, CoverStaleWarm, CoverRefused, CoverDenied, CoverNodeCrash, CoverNodeGone, CoverZombie,
	CoverFlappingAgent, CoverUnhealthyStorm, CoverStopIgnored, CoverZoneLost, CoverResized, CoverAttribute, CoverInfeasible,
	CoverRepeated, CoverDifferent, CoverSpam, CoverMalformed, CoverBadEvent, CoverStartApplied, CoverStartLost, CoverStartLate,
	CoverListLate, CoverExtra, CoverForeign, CoverWaited, CoverAttributed, CoverShared, CoverPort, CoverENI, CoverConstraint, CoverSociable,
	CoverNodeConstraint, CoverDomain, CoverStrategy, CoverScoring, CoverMetric, CoverBuffer, CoverSoft, CoverMoved, CoverMoveOver,
	CoverRules, CoverRulesRefused, CoverConfigured, CoverLoadOperation, CoverLoadEvent, CoverOverloaded, CoverRelieved, CoverCordoned,
	CoverMisfit, CoverMended, CoverDeployed, CoverCompleted, CoverTripped, CoverRolledBack, CoverStalled, CoverStopRequested, CoverProtected,
	CoverSick, CoverMendedRevision, CoverBalanced, CoverDrained, CoverTargetUnhealthy, CoverAlarm, CoverRebalanced,
	CoverThrottled, CoverDying, CoverAborted, CoverEarly, CoverDeferred, CoverSpot, CoverRecommended, CoverImageGone, CoverProvided, CoverFellBack,
}

// Marks of runs in which a node group is updated.
const (
	CoverUpdate    CoveragePoint = "upgrade: an update began"
	CoverInUse     CoveragePoint = "upgrade: an update was refused as another was in progress"
	CoverScaledOut CoveragePoint = "upgrade: managed scaling enlarged the group"
	CoverStopped   CoveragePoint = "upgrade: an update left other sizes and said why"
	CoverForced    CoveragePoint = "upgrade: a task was stopped by force"
	CoverGaveUp    CoveragePoint = "upgrade: " + CoveragePoint(cluster.PodEvictionFailure)
	CoverNoNodes   CoveragePoint = "upgrade: " + CoveragePoint(cluster.NodeCreationFailure)
	CoverNoRights  CoveragePoint = "upgrade: " + CoveragePoint(cluster.UpdateAccessDenied)
	CoverSucceeded CoveragePoint = "upgrade: " + CoveragePoint(cluster.UpdateSuccessful)
	CoverFailed    CoveragePoint = "upgrade: " + CoveragePoint(cluster.UpdateFailed)
)

// UpgradeCoverage are all of them.
var UpgradeCoverage = []CoveragePoint{
	CoverUpdate, CoverInUse, CoverScaledOut, CoverStopped, CoverForced, CoverGaveUp, CoverNoNodes, CoverNoRights, CoverSucceeded, CoverFailed,
}

// Coverage counts what happened over any number of runs.
type Coverage struct {
	Points map[CoveragePoint]int
	Hits   [faultCount]int
}

// Add takes in one run's.
func (c *Coverage) Add(o Coverage) {
	if c.Points == nil {
		c.Points = map[CoveragePoint]int{}
	}
	for m, n := range o.Points {
		c.Points[m] += n
	}
	for f, n := range o.Hits {
		c.Hits[f] += n
	}
}

// Missing is what never happened of these.
func (c *Coverage) Missing(faults []Fault, marks []CoveragePoint) []string {
	var out []string
	for _, f := range faults {
		if c.Hits[f] == 0 {
			out = append(out, f.String())
		}
	}
	for _, m := range marks {
		if c.Points[m] == 0 {
			out = append(out, string(m))
		}
	}
	return out
}
