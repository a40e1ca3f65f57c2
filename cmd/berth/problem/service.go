package problem

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/cmd/berth/listing"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/snapshot"
	"berth/shared/spelling"
)

// slowStart is how long a task may be starting before that is a problem.
const slowStart = 5 * time.Minute

// serviceFinder collects the problems of services.
type serviceFinder struct{ *finder }

// taskCounts are the tasks of a service that count, by condition.
type taskCounts struct {
	running, unhealthy int
	leaving            int             // running on a DRAINING instance
	starting           []*cluster.Task // on an instance, not RUNNING yet
	startingLeaving    int             // of those, on a DRAINING instance
	oldest             time.Time       // when the first of those was created
	oldestOn           string          // its instance
	reason             string          // why the first unhealthy one is
}

// isReplacing reports whether the service has all its tasks, some of an earlier revision: those
// without room are to replace them.
func (c *taskCounts) isReplacing(s *cluster.Service) bool {
	return s.Strategy == cluster.Replica && len(s.Older) > 0 && c.running-c.leaving >= s.Desired
}

// countTasks counts the tasks of a service, or of one of its revisions if that is not empty.
func (f serviceFinder) countTasks(s *cluster.Service, revision string) (c taskCounts) {
	for _, t := range f.in.Snapshot.TasksOf(s.Short) {
		switch {
		case revision != "" && t.Revision != revision:
		case !t.IsActive() || t.Instance == "":
		case t.Last != cluster.TaskRunning:
			c.starting = append(c.starting, t)
			if f.isOnDraining(t) {
				c.startingLeaving++
			}
			if at := t.CreatedAt.Time(); c.oldest.IsZero() || at.Before(c.oldest) {
				c.oldest, c.oldestOn = at, t.Instance
			}
		default:
			c.running++
			if f.isOnDraining(t) {
				c.leaving++
			}
			target := f.in.Snapshot.Target(s.Short, t.ID)
			if t.Health == cluster.Unhealthy || target != nil && target.WorstHealth() == cluster.Unhealthy {
				c.unhealthy++
				c.reason = cmp.Or(c.reason, unhealthyReason(target))
			}
		}
	}
	return c
}

// isOnDraining reports whether the task's instance is DRAINING.
func (f serviceFinder) isOnDraining(t *cluster.Task) bool {
	v := f.in.Snapshot.Instances[t.Instance]
	return v != nil && v.Instance != nil && isDraining(v.Instance)
}

// unhealthyReason returns what a load balancer said, if it is the one that found the task
// unhealthy.
func unhealthyReason(t *cluster.Target) string {
	if t != nil {
		for _, r := range t.Registrations {
			if r.Health == cluster.Unhealthy {
				what := "target group " + cluster.LastPart(r.ARN)
				if name, classic := cluster.ClassicName(r.ARN); classic {
					what = "load balancer " + name
				}
				return fmt.Sprintf("%s says: %s", what, cmp.Or(r.Reason, "unhealthy"))
			}
		}
	}
	return "its containers' health checks fail"
}

// checkService finds what is wrong with an ACTIVE service. Of the causes for too few tasks it
// reports the first that holds: a failed deployment, throttled starts or no room, slow starts. A
// service whose starts are throttled and that has no room now has both problems.
func (f serviceFinder) checkService(s *cluster.Service) {
	c := f.countTasks(s, "")
	short := s.WantedTasks() - c.running
	failed, throttled := f.checkDeployment(s), f.checkThrottle(s, c)
	switch {
	case failed && short > 0, throttled && f.blocked[s.Name] == nil:
	case s.Blocked != nil && (short > 0 || s.Blocked.Unplaced > 0):
		roomFinder(f).addBlocked(s, c, max(short, s.Blocked.Unplaced))
	case short > 0 && !c.oldest.IsZero() && f.in.Now.Sub(c.oldest) > slowStart:
		f.add(Problem{Kind: ServiceShort, Type: "service", Name: s.Name, Count: short,
			What: f.describeShort(s, c),
			Why: fmt.Sprintf("%s still starting, the first since %s on instance %s.",
				countAre(len(c.starting), "task"), formatTime(c.oldest), c.oldestOn) +
				describeDeadAgents(f.in.Snapshot, c.starting)}, c.oldest,
			Help{"See what its agent reports", f.aws("describe-tasks --tasks %s", c.starting[0].ID)})
	}
	f.checkTargets(s)
	f.checkEnds(s, c)
	if c.unhealthy > 0 {
		f.add(Problem{Kind: TasksUnhealthy, Type: "service", Name: s.Name, Count: c.unhealthy,
			What: fmt.Sprintf("Service %s has %d unhealthy of %s.", s.Name, c.unhealthy, countRunning(c.running)),
			Why:  sentence(c.reason)}, s.UnhealthySince,
			Help{"See the service's events", f.berth("events --service %s", s.Name)})
	}
	f.checkProtectedTasks(s, c)
	if since, stuck := listing.StuckSince(s); stuck {
		f.addStuck(s, c, since)
	}
	if s.Unrepaired != "" {
		f.add(Problem{Kind: RuleBroken, Type: "service", Name: s.Name, Count: 1,
			What: fmt.Sprintf("Service %s breaks a rule that no moves can repair.", s.Name),
			Why:  sentence(s.Unrepaired)},
			s.EmittedKeys[decide.UnrepairedKey],
			Help{"See which tasks are concerned", f.berth("explain service %s", s.Name)})
	}
	if w := f.in.Snapshot.AlarmWatch(s.Short); w != nil && len(w.Missing) > 0 && w.Deployment == s.Deployment.ID {
		f.add(Problem{Kind: NameUnknown, Type: "service", Name: s.Name, Count: len(w.Missing),
			What: fmt.Sprintf("Service %s names alarms that CloudWatch does not have.", s.Name),
			Why:  fmt.Sprintf("They protect no deployment: %s.", listNames(slices.Clone(w.Missing)))}, time.Time{},
			Help{"List the alarms that exist", f.other(
				"cloudwatch describe-alarms --query 'MetricAlarms[].AlarmName'")})
	}
	if s.Blocked == nil {
		f.checkNames(s)
	}
}

// checkProtectedTasks reports a service that keeps more tasks than desired because they are protected.
func (f serviceFinder) checkProtectedTasks(s *cluster.Service, c taskCounts) {
	if s.Strategy != cluster.Replica || c.running <= s.Desired {
		return
	}
	var ids []string
	var until time.Time
	for _, t := range f.in.Snapshot.TasksOf(s.Short) {
		if p := f.in.Snapshot.Protection(t.Owner, t.ID); t.IsActive() && f.isProtected(t) {
			ids = append(ids, t.ID)
			if p.Until.After(until) {
				until = p.Until
			}
		}
	}
	if len(ids) <= s.Desired { // the others can stop
		return
	}
	slices.Sort(ids)
	f.add(Problem{Kind: ScaleInWaits, Type: "service", Name: s.Name, Count: len(ids) - s.Desired,
		What: fmt.Sprintf("Service %s runs %d of %s: it cannot scale in.", s.Name, c.running,
			whatif.CountNoun(s.Desired, "task")),
		Why: fmt.Sprintf("%s protected, the last until %s.", countAre(len(ids), "task"), formatTime(until))},
		time.Time{}, Help{"End the protection", f.aws("update-task-protection --no-protection-enabled --tasks %s",
			strings.Join(ids[:min(len(ids), maxProtected)], " "))})
}

// maxProtected is how many tasks one call of UpdateTaskProtection may name.
const maxProtected = 10

// describeDeadAgents says how many of the tasks that are starting wait for an agent that is not
// connected; empty if none does.
func describeDeadAgents(snap *snapshot.Snapshot, starting []*cluster.Task) string {
	n, on := 0, map[string]bool{}
	for _, t := range starting {
		if v := snap.Instances[t.Instance]; v != nil && v.Instance != nil && !v.AgentConnected {
			n, on[t.Instance] = n+1, true
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" The agent is not connected on the instance of %d: %s.", n,
		listNames(slices.Collect(maps.Keys(on))))
}

// checkNames reports names in a service's rules that no instance has, where they have stopped no
// task yet.
func (f serviceFinder) checkNames(s *cluster.Service) {
	what := fmt.Sprintf("A rule of service %s names what no instance has.", s.Name)
	if s.Strategy == cluster.Daemon && f.countTasks(s, "").running == 0 {
		what = fmt.Sprintf("DAEMON service %s runs on no instance: a rule names what none has.", s.Name)
	}
	for _, u := range f.names.CheckRules(allRules(f.in.Snapshot, s), knownProviders(&f.in, s)) {
		f.add(Problem{Kind: NameUnknown, Type: "service", Name: s.Name, Count: 1, What: what,
			Why: sentence(u.String())},
			namesSince(s), f.correction(s, u))
	}
}

// namesSince returns when Berth first emitted that names in the service's rules have no effect; zero
// if it did not.
func namesSince(s *cluster.Service) (first time.Time) {
	for key, at := range s.EmittedKeys {
		if strings.HasPrefix(key, decide.NamesKeyPrefix) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// allRules returns the service's rules with the constraints of its task definition.
func allRules(snap *snapshot.Snapshot, s *cluster.Service) cluster.Rules {
	rules := s.Rules
	if d := snap.Definitions[s.Deployment.TaskDefinition]; d != nil {
		rules.Constraints = slices.Concat(rules.Constraints, d.Constraints)
	}
	return rules
}

// knownProviders returns the service's strategy, or nothing if the cluster's providers are unknown.
func knownProviders(in *Input, s *cluster.Service) []cluster.ProviderShare {
	if in.Capacity == nil {
		return nil
	}
	return s.Providers
}

// correction returns the command that replaces a misspelled rule.
func (f serviceFinder) correction(s *cluster.Service, u spelling.Unknown) Help {
	own := slices.ContainsFunc(s.Rules.Constraints, func(c cluster.PlacementConstraint) bool {
		return c.Expression == u.Within
	})
	text := u.Corrected()
	switch {
	case u.Kind == "attribute" && u.Within == "" && u.Nearest != "":
		return Help{"Correct the strategy", f.aws("update-service --service %s --placement-strategy %s", s.Name,
			correctedStrategies(s, u))}
	case text == "" || u.Kind != "attribute":
	case !own:
		return deployHelp(f.finder, s, s.Deployment.ID, s.Deployment.TaskDefinition,
			fmt.Sprintf("Register a revision with the constraint %q, and deploy it", text))[0]
	default:
		var list []string
		for _, c := range s.Rules.Constraints {
			switch {
			case c.Type != cluster.MemberOf:
				list = append(list, "type="+c.Type)
			case c.Expression == u.Within:
				list = append(list, memberOfArgument(text))
			default:
				list = append(list, memberOfArgument(c.Expression))
			}
		}
		what := "Correct the constraint"
		if u.Value != "" { // often no typo: the last such instance is gone
			what = "Use the nearest value instead, if that is right"
		}
		return Help{what, f.aws("update-service --service %s --placement-constraints %s", s.Name,
			strings.Join(list, " "))}
	}
	return Help{"See what the instances have", f.berth("instance --output wide")}
}

// memberOfArgument returns a constraint as an argument. In the AWS CLI's short syntax, a comma or a
// bracket ends a value that is not quoted.
func memberOfArgument(expression string) string {
	if strings.ContainsAny(expression, `,[]{}"`) {
		expression = `"` + strings.ReplaceAll(expression, `"`, `\"`) + `"`
	}
	return QuoteArgument("type=memberOf,expression=" + expression)
}

// correctedStrategies returns the service's placement strategies as arguments, with the nearest
// attribute.
func correctedStrategies(s *cluster.Service, u spelling.Unknown) string {
	var list []string
	for _, x := range s.Rules.Strategies {
		if x.Field == "attribute:"+u.Name {
			x.Field = "attribute:" + u.Nearest
		}
		text := "type=" + x.Type
		if x.Field != "" {
			text += ",field=" + x.Field
		}
		list = append(list, QuoteArgument(text))
	}
	return strings.Join(list, " ")
}

// describeShort says how many tasks a service has.
func (f serviceFinder) describeShort(s *cluster.Service, c taskCounts) string {
	return fmt.Sprintf("Service %s runs %d of %s.", s.Name, c.running, whatif.CountNoun(s.WantedTasks(), "task"))
}

func familyOf(definition string) string {
	family, _, _ := strings.Cut(definition, ":")
	return family
}

// lastFailed returns the last task that never ran, of the service or of one of its revisions if that is
// not empty. It is nil if no such row exists any more.
func lastFailed(snap *snapshot.Snapshot, s *cluster.Service, revision string) (last *cluster.Task) {
	for _, t := range snap.TasksOf(s.Short) {
		if !t.NeverRan() || revision != "" && t.Revision != revision {
			continue
		}
		if last == nil || t.Stopped.Time().After(last.Stopped.Time()) {
			last = t
		}
	}
	return last
}

func lastFailure(snap *snapshot.Snapshot, s *cluster.Service) string {
	if last := lastFailed(snap, s, ""); last != nil {
		return last.Reason
	}
	return ""
}

// addStuck reports percentages that allow a deployment no step, or a service not all its tasks.
func (f serviceFinder) addStuck(s *cluster.Service, c taskCounts, since time.Time) {
	least, most := s.TaskBounds(s.Desired)
	what := fmt.Sprintf("The deployment of %s to service %s is stuck: its percentages allow no step.",
		s.Deployment.TaskDefinition, s.Name)
	if listing.IsMaximumTooSmall(s) {
		what = fmt.Sprintf("Service %s cannot have all its tasks: its maximumPercent is too small.", s.Name)
	}
	f.add(Problem{Kind: DeploymentStuck, Type: "service", Name: s.Name, Count: max(1, s.Desired-s.Deployment.Healthy),
		What: what,
		Why: fmt.Sprintf("minimumHealthyPercent %d keeps at least %d of its %s, and maximumPercent %d allows at "+
			"most %d. It has %s.", s.MinHealthy, least, whatif.CountNoun(s.Desired, "task"), s.MaxPercent, most,
			countRunning(c.running))}, since,
		Help{"Allow one task more or less", f.percentages(s)})
}

// checkTargets reports registrations that a target group or Classic Load Balancer refused.
func (f serviceFinder) checkTargets(s *cluster.Service) {
	refused, count, since := map[string]string{}, map[string]int{}, map[string]time.Time{}
	for _, id := range slices.Sorted(maps.Keys(f.in.Snapshot.Targets(s.Short))) {
		for _, r := range f.in.Snapshot.Target(s.Short, id).Registrations {
			if r.State == cluster.RegistrationFailed {
				refused[r.ARN], count[r.ARN] = r.Reason, count[r.ARN]+1
				// Tasks are registered when they have started.
				if t := f.in.Snapshot.Task(s.Short, id); t != nil && !t.Started.IsZero() &&
					(since[r.ARN].IsZero() || t.Started.Time().Before(since[r.ARN])) {
					since[r.ARN] = t.Started.Time()
				}
			}
		}
	}
	for _, arn := range slices.Sorted(maps.Keys(refused)) {
		what, help := f.describeBalancer(arn)
		if isGone(refused[arn]) {
			help = Help{"List the target groups that exist",
				f.other("elbv2 describe-target-groups --query 'TargetGroups[].TargetGroupArn'")}
		}
		f.add(Problem{Kind: TargetRefused, Type: "service", Name: s.Name, Count: count[arn],
			What: fmt.Sprintf("%s refuses %s of service %s.", what, whatif.CountNoun(count[arn], "task"), s.Name),
			Why:  sentence(cmp.Or(refused[arn], "it gives no reason"))}, since[arn],
			append([]Help{help}, f.goneHelp(s, refused[arn])...)...)
	}
}

// isGone reports whether a registration was refused because its target group does not exist.
func isGone(reason string) bool {
	return strings.HasPrefix(reason, string(cluster.CodeTargetGroupNotFound)+":")
}

// goneHelp returns what takes a target group that does not exist out of the service, if the service
// has no other load balancer.
func (f serviceFinder) goneHelp(s *cluster.Service, reason string) []Help {
	if !isGone(reason) || len(s.Deployment.LoadBalancers) != 1 || s.HasTaskSets() { // ECS refuses it for a task set
		return nil
	}
	return []Help{{"Take it out of the service", f.aws("update-service --service %s --load-balancers '[]'", s.Name)}}
}

// describeBalancer names a target group or Classic Load Balancer, and returns the command that
// shows it.
func (f serviceFinder) describeBalancer(arn string) (what string, help Help) {
	if name, classic := cluster.ClassicName(arn); classic {
		return "Load balancer " + name,
			Help{"See the load balancer",
				f.other("elb describe-load-balancers --load-balancer-names %s", QuoteArgument(name))}
	}
	name := arn
	if parts := strings.Split(arn, "/"); len(parts) > 1 {
		name = parts[1] // arn:...:targetgroup/NAME/ID
	}
	return "Target group " + name,
		Help{"See the target group", f.other("elbv2 describe-target-groups --target-group-arns %s", QuoteArgument(arn))}
}

// countAre returns "1 task is" or "2 tasks are".
func countAre(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return fmt.Sprintf("%d %ss are", n, noun)
}

func countRunning(n int) string { return whatif.CountNoun(n, "RUNNING task") }
