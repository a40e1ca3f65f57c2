package problem

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
)

// checkDeployment reports a deployment that failed, or that was rolled back and not replaced since.
func (f serviceFinder) checkDeployment(s *cluster.Service) bool {
	r := s.Release
	if s.Deployment.State == cluster.RolloutFailed {
		help := alarmHelp(f.finder, r)
		if len(help) == 0 {
			help = f.startHelp(s.Deployment.TaskDefinition, f.failureOf(s, r))
		}
		f.add(Problem{Kind: DeploymentFailed, Type: "service", Name: s.Name, Count: max(1, s.Deployment.Failed),
			What: fmt.Sprintf("The deployment of %s to service %s failed, and starts no more tasks.",
				s.Deployment.TaskDefinition, s.Name),
			Why: f.describeFailure(s, r)}, s.Deployment.UpdatedAt,
			slices.Concat(help, f.returnHelp(s), deployHelp(f.finder, s, s.Deployment.ID,
				s.Deployment.TaskDefinition, "Register a revision that works, and deploy it"))...)
		return true
	}
	if r == nil || r.RollbackAt.IsZero() || !r.Tripped && len(r.Triggered) == 0 {
		return false
	}
	state := "was rolled back"
	if !r.Status.HasEnded() {
		state = "is being rolled back"
	} else if r.Status == cluster.DeploymentRollbackFailed {
		state = "failed, and so did its rollback"
	}
	target, family := "ECS deployment "+r.Target, s.Deployment.TaskDefinition
	help := []Help{{"See why its tasks stopped", f.berth("events --service %s", s.Name)}}
	again := "Deploy again once the cause is removed"
	was := cmp.Or(r.TargetDefinition, f.definitionOf(s, r.Target))
	if was != "" {
		target, family = was, was
	}
	if reason := f.failureOf(s, r); r.Tripped && was != "" && reason != "" {
		help = append(help, f.startHelp(was, reason)...)
	}
	if len(r.Triggered) > 0 {
		help = alarmHelp(f.finder, r)
		again = "Deploy again once they are OK: alarms end no deployment that begins while one of them is in ALARM"
	}
	f.add(Problem{Kind: DeploymentFailed, Type: "service", Name: s.Name, Count: max(1, r.Failures),
		What: fmt.Sprintf("The deployment of %s to service %s %s to %s.", target, s.Name, state,
			s.Deployment.TaskDefinition),
		Why: f.describeFailure(s, r)}, r.RollbackAt,
		append(help, Help{again, f.aws("update-service --service %s --task-definition %s", s.Name,
			familyOf(family))})...)
	return false
}

// describeFailure says why a deployment failed: the circuit breaker's numbers, alarms, or the
// recorded reason.
func (f serviceFinder) describeFailure(s *cluster.Service, r *cluster.Release) string {
	var why []string
	if r != nil && r.Tripped {
		why = append(why, fmt.Sprintf("The circuit breaker counted %s, and its threshold is %d.",
			whatif.CountNoun(r.Failures, "failed task"), r.Threshold))
	}
	if r != nil && len(r.Triggered) > 0 {
		why = append(why, describeAlarms(r))
	}
	reason := s.Deployment.Reason
	if r != nil && !r.RollbackAt.IsZero() {
		reason = cmp.Or(r.RollbackReason, r.Reason)
	}
	if len(why) == 0 && reason != "" {
		why = append(why, sentence(reason))
	}
	if last := f.failureOf(s, r); last != "" {
		why = append(why, "Last failure: "+describeReason(last))
	}
	return cmp.Or(strings.Join(why, " "), "No reason was recorded.")
}

// failureOf returns why the last task failed to start: as the deployment's end recorded it, because the
// rows of stopped tasks are deleted after a while, or as the rows say.
func (f serviceFinder) failureOf(s *cluster.Service, r *cluster.Release) string {
	if r != nil && r.LastFailure != "" {
		return r.LastFailure
	}
	return lastFailure(f.in.Snapshot, s)
}

// describeAlarms says which alarms ended a deployment, and since when they were in ALARM.
func describeAlarms(r *cluster.Release) string {
	text, since := "CloudWatch alarm %s was in ALARM%s.", "since"
	if len(r.Triggered) > 1 {
		text, since = "CloudWatch alarms %s were in ALARM%s.", "the first since"
	}
	if since = ", " + since + " " + formatTime(r.TriggeredSince); r.TriggeredSince.IsZero() {
		since = ""
	}
	return fmt.Sprintf(text, listNames(slices.Clone(r.Triggered)), since)
}

// alarmHelp returns the command that shows the alarms which ended a deployment as they are now; none if
// none did.
func alarmHelp(f *finder, r *cluster.Release) []Help {
	if r == nil || len(r.Triggered) == 0 {
		return nil
	}
	names := ""
	for _, name := range r.Triggered {
		names += " " + QuoteArgument(name)
	}
	return []Help{{"See the state of the alarms now, since when and why", f.other("cloudwatch describe-alarms "+
		"--alarm-types MetricAlarm CompositeAlarm --alarm-names%s --query '[MetricAlarms,CompositeAlarms][]."+
		"[AlarmName,StateValue,StateTransitionedTimestamp,StateReason]'", names)}}
}
