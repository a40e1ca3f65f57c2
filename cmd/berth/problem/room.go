package problem

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/snapshot"
)

// roomFinder finds why tasks of a service have no instance, and what may give them room.
type roomFinder struct{ *finder }

// addBlocked reports a service whose tasks find no instance, with what placement found.
func (f roomFinder) addBlocked(s *cluster.Service, c taskCounts, count int) {
	d := cmp.Or(f.blocked[s.Name], s.Blocked)
	p := Problem{Kind: ServiceShort, Type: "service", Name: s.Name, Count: count,
		What: fmt.Sprintf("Service %s runs %d of %s%s: no instance can take %s.", s.Name, c.running,
			whatif.CountNoun(s.Desired, "task"), describeOthers(c), countMore(cmp.Or(d.Unplaced, count))),
		Why: describeDiagnosis(d)}
	if _, asked := f.blocked[s.Name]; !asked { // now is not known, or there is room
		p.Why = "When placement last tried: " + p.Why
	}
	if c.isReplacing(s) {
		least, _ := s.TaskBounds(s.Desired)
		p.What = fmt.Sprintf("The deployment of %s to service %s waits: no instance can take %s.",
			s.Deployment.TaskDefinition, s.Name, countMore(cmp.Or(d.Unplaced, count)))
		p.Why = fmt.Sprintf("minimumHealthyPercent %d keeps at least %d of the service's %s. %s", s.MinHealthy, least,
			whatif.CountNoun(c.running, "task"), p.Why)
	}
	var help []Help
	if slices.ContainsFunc(d.Rejected, func(r cluster.Rejection) bool {
		return slices.Contains(namingFilters, r.Filter)
	}) {
		for _, u := range f.names.CheckRules(allRules(f.in.Snapshot, s), knownProviders(&f.in, s)) {
			p.Why += " " + sentence(u.String())
			help = append(help, serviceFinder(f).correction(s, u))
		}
	}
	if text, _ := f.exceedsInstances(s); text != "" {
		p.Why += " " + text
	}
	if slices.ContainsFunc(d.Rejected, func(r cluster.Rejection) bool { return r.Filter == cluster.FilterPort }) {
		p.Why += describePortHolders(f.in.Snapshot, s)
	}
	kept := ""
	if slices.ContainsFunc(d.Rejected, func(r cluster.Rejection) bool {
		return slices.Contains(sizeFilters, r.Filter)
	}) {
		kept = describeKeptRoom(f.in.Snapshot, s)
	}
	p.Why += kept + describeWaitingLimit(f.in.Snapshot, s)
	if s.Strategy == cluster.Daemon {
		text, more := f.describeHeldRoom(s)
		p.Why, help = p.Why+text, append(help, more...)
	}
	for _, describe := range []func(*finder, *cluster.Service, *cluster.Diagnosis) (string, []Help){
		describeAffinity, describeLimits} {
		text, more := describe(f.finder, s, d)
		p.Why, help = p.Why+text, append(help, more...)
	}
	p.Why += describeEarlierFailures(&f.in, s)
	sizes, more := scalingHelp(f.finder, s.Providers)
	p.Why = strings.TrimSpace(p.Why + " " + sizes)
	movesHelp := kept == "" && len(f.in.Snapshot.GovernedServices()) > 0
	help = append(append(help, more...), f.roomHelp(s, d, c, movesHelp)...)
	f.add(p, s.BlockedSince, help...)
}

// namingFilters reject instances for names that a service's rules may have misspelled.
var namingFilters = []cluster.Filter{cluster.FilterConstraint, cluster.FilterAttribute, cluster.FilterTaint}

// sizeFilters reject instances for room that may be kept for a DAEMON service. Other filters would
// reject them without that.
var sizeFilters = []cluster.Filter{cluster.FilterCPU, cluster.FilterMemory, cluster.FilterENI}

// describePortHolders says whose tasks hold the host ports that the service's tasks need, and on how
// many instances, those on the most instances first; empty if none does.
func describePortHolders(snap *snapshot.Snapshot, s *cluster.Service) (text string) {
	d := snap.Definitions[s.Deployment.TaskDefinition]
	if d == nil {
		return ""
	}
	instances := map[string]int{} // by holder
	for _, v := range snap.Instances {
		here := map[string]bool{}
		for _, t := range v.Tasks {
			if slices.ContainsFunc(t.Ports, func(p cluster.Port) bool { return slices.Contains(d.Ports, p) }) {
				here[describeHolder(s, t)] = true
			}
		}
		for holder := range here {
			instances[holder]++
		}
	}
	holders := slices.SortedFunc(maps.Keys(instances), func(a, b string) int {
		return cmp.Or(cmp.Compare(instances[b], instances[a]), strings.Compare(a, b))
	})
	for _, holder := range holders[:min(len(holders), listed)] {
		text += fmt.Sprintf(" %s on %s.", holder, whatif.CountNoun(instances[holder], "instance"))
	}
	return text
}

// describeHolder says whose task holds a port that the service's tasks need.
func describeHolder(s *cluster.Service, t *cluster.Task) string {
	switch {
	case t.Owner == s.Short:
		return "Tasks of its own hold the port"
	case t.Service == "":
		return "Standalone tasks hold the port"
	}
	return "Tasks of service " + t.Service + " hold the port"
}

// describeOthers says how many of the running tasks leave, which count and need a replacement, and how
// many tasks are starting, which have an instance and do not count yet.
func describeOthers(c taskCounts) (text string) {
	switch c.leaving {
	case 0:
	case 1:
		text = ", 1 on a draining instance"
	default:
		text = fmt.Sprintf(", %d on draining instances", c.leaving)
	}
	if n := len(c.starting); n > 0 {
		text += fmt.Sprintf(", %d %s starting", n, isOrAre(n))
	}
	return text
}

// describeWaitingLimit says that tasks of the service do not even wait for an instance, because as
// many tasks of the cluster as may are waiting; empty if they may wait.
func describeWaitingLimit(snap *snapshot.Snapshot, s *cluster.Service) string {
	if _, limited := s.EmittedKeys[decide.ProvisioningLimitKey]; !limited {
		return ""
	}
	waiting := map[string]int{} // by service
	total := 0
	for _, t := range snap.ProvisioningTasks() {
		waiting[cmp.Or(t.Service, "none")]++
		total++
	}
	names := slices.SortedFunc(maps.Keys(waiting), func(a, b string) int {
		return cmp.Or(cmp.Compare(waiting[b], waiting[a]), strings.Compare(a, b))
	})
	var most []string
	for _, name := range names[:min(len(names), listed)] {
		most = append(most, fmt.Sprintf("%d of service %s", waiting[name], name))
	}
	return fmt.Sprintf(" %s for an instance in the cluster, and no more may (parameter ProvisioningLimit): %s. "+
		"Capacity providers do not scale out for the others.", countWait(total), strings.Join(most, ", "))
}

// countWait returns "1 task waits" or "2 tasks wait".
func countWait(n int) string {
	if n == 1 {
		return "1 task waits"
	}
	return fmt.Sprintf("%d tasks wait", n)
}

func countMore(n int) string {
	if n == 1 {
		return "1 more"
	}
	return fmt.Sprintf("%d more", n)
}

// describeDiagnosis puts a diagnosis into sentences.
func describeDiagnosis(d *cluster.Diagnosis) string {
	switch {
	case d.Empty != "":
		return fmt.Sprintf("Capacity provider %s has no instance.", d.Empty)
	case d.Evaluated == 0:
		return "The cluster has no instance."
	}
	rejected := *d
	rejected.Unknown = "" // it follows as a sentence of its own, with a correction
	_, reasons, _ := strings.Cut(rejected.String(), ": ")
	return fmt.Sprintf("%d of %s can take one: %s.", d.Feasible, whatif.CountNoun(d.Evaluated, "instance"),
		cmp.Or(reasons, "none is left"))
}

// maxHelp is how many commands a blocked service gets.
const maxHelp = 4

// roomHelp returns what may give the service's tasks room, by what rejects the most instances.
// movesHelp is set if moves could.
func (f roomFinder) roomHelp(s *cluster.Service, d *cluster.Diagnosis, c taskCounts, movesHelp bool) (help []Help) {
	if _, most := f.exceedsInstances(s); most != "" { // nothing gives such a task room on these instances
		return append(deployHelp(f.finder, s, s.Deployment.ID, s.Deployment.TaskDefinition,
			fmt.Sprintf("Register a revision that needs at most %s and deploy it, or add larger instances", most)),
			Help{"See what the instances have", f.berth("instance --output wide")})
	}
	for _, r := range sortedRejections(d) {
		help = append(help, f.filterHelp(s, r, movesHelp)...)
		if slices.Contains(roomFilters, r.Filter) {
			help = append(help, f.fewerHelp(s, c)...)
		}
	}
	switch {
	case len(help) > 0:
	case d.Evaluated == 0 && d.Empty == "":
		help = []Help{{"Have a machine join: on it, before its ECS agent starts",
			fmt.Sprintf("echo ECS_CLUSTER=%s >> /etc/ecs/ecs.config", QuoteArgument(f.in.Cluster))}}
	default:
		help = []Help{{"See the cluster's instances", f.berth("instance")}}
	}
	var unique []Help
	for _, h := range help {
		if !slices.Contains(unique, h) {
			unique = append(unique, h)
		}
	}
	return unique[:min(len(unique), maxHelp)]
}

// fewerHelp returns the command after which the service wants no more tasks than there is room for, or
// needs room for none beside those that it has.
func (f roomFinder) fewerHelp(s *cluster.Service, c taskCounts) []Help {
	kept := c.running - c.leaving + len(c.starting) - c.startingLeaving
	switch {
	case c.isReplacing(s):
		return []Help{{"Let it stop a task first", f.percentages(s)}}
	case s.Strategy == cluster.Daemon, kept >= s.Desired: // a DAEMON has no desired count
		return nil
	case kept == 0:
		return []Help{{"Ask for none until there is room",
			f.aws("update-service --service %s --desired-count 0", s.Name)}}
	}
	return []Help{{"Ask for as many tasks as there is room for",
		f.aws("update-service --service %s --desired-count %d", s.Name, kept)}}
}

// roomFilters are the filters that fewer tasks would satisfy.
var roomFilters = []cluster.Filter{cluster.FilterOccupied, cluster.FilterFaultDomain, cluster.FilterUpgrade,
	cluster.FilterPort, cluster.FilterCPU, cluster.FilterMemory, cluster.FilterGPU, cluster.FilterENI,
	cluster.FilterMetric, cluster.FilterApplicationNodes, cluster.FilterApplicationNode, cluster.FilterApplicationTotal}

// filterHelp returns what may help against one filter.
func (f roomFinder) filterHelp(s *cluster.Service, r cluster.Rejection, movesHelp bool) []Help {
	first := func(holds func(*cluster.Instance) bool) string {
		return f.firstInstance(func(i *cluster.Instance) bool { return holds(i) && mayUseProvider(s, i) })
	}
	switch r.Filter {
	case cluster.FilterStatus:
		if id := first(isDraining); id != "" {
			return []Help{{"Let a draining instance take tasks again", f.aws(
				"update-container-instances-state --status ACTIVE --container-instances %s", id)}}
		}
	case cluster.FilterAgent:
		if id := first(func(i *cluster.Instance) bool { return !i.AgentConnected }); id != "" {
			return []Help{{"See what is on a disconnected instance", f.berth("explain instance %s", id)}}
		}
	case cluster.FilterUnschedulable:
		if id := first(isCordoned); id != "" {
			return []Help{{"Let an unschedulable instance take tasks again", f.aws(
				"delete-attributes --attributes name=%s,targetType=container-instance,targetId=%s",
				cluster.AttributeUnschedulable, id)}}
		}
	case cluster.FilterFaultDomain, cluster.FilterUpgrade:
		return []Help{{"See where tasks would go without the domain rule", f.berth(
			"whatif --service %s --domain-policy %s", s.Name, cluster.PolicyNone)}}
	case cluster.FilterCPU, cluster.FilterMemory, cluster.FilterGPU, cluster.FilterENI, cluster.FilterMetric:
		if s.Strategy == cluster.Daemon {
			break // moves make no room for its tasks
		}
		if movesHelp && f.in.Snapshot.Application(s.Rules.Application) == nil { // moves make no room for its tasks
			return []Help{{"See whether moves would make room", f.berth("whatif --service %s --moves", s.Name)}}
		}
	}
	return []Help{{"See why each instance is rejected", f.berth("explain service %s", s.Name)}}
}

// mayUseProvider reports whether the service's capacity providers, if it has any, have the instance.
func mayUseProvider(s *cluster.Service, i *cluster.Instance) bool {
	return len(s.Providers) == 0 || slices.ContainsFunc(s.Providers, func(share cluster.ProviderShare) bool {
		return share.Provider == i.CapacityProvider()
	})
}

// exceedsInstances says that a task of the service is larger than every instance, so that neither
// stops nor moves give it room, and what the largest instance has; empty if it is not.
func (f roomFinder) exceedsInstances(s *cluster.Service) (text, most string) {
	d := f.in.Snapshot.Definitions[s.Deployment.TaskDefinition]
	var cpu, memory int64
	var gpus int
	for _, v := range f.in.Snapshot.Instances {
		if v.Instance == nil || v.IsDeregistered() {
			continue
		}
		cpu, memory = max(cpu, int64(v.Registered.CPU)), max(memory, int64(v.Registered.Memory))
		gpus = max(gpus, len(v.Registered.GPUs))
	}
	switch {
	case d == nil || cpu == 0:
		return "", ""
	case int64(d.Needs.CPU) > cpu:
		return fmt.Sprintf("A task needs %d CPU units, more than the largest instance has (%d).",
			int64(d.Needs.CPU)/cluster.CPUUnit, cpu/cluster.CPUUnit), fmt.Sprintf("%d CPU units", cpu/cluster.CPUUnit)
	case int64(d.Needs.Memory) > memory:
		return fmt.Sprintf("A task needs %d MiB of memory, more than the largest instance has (%d).", d.Needs.Memory,
			memory), fmt.Sprintf("%d MiB of memory", memory)
	case d.Needs.GPUs > gpus:
		return fmt.Sprintf("A task needs %s, more than any instance has (%d).",
			whatif.CountNoun(d.Needs.GPUs, "GPU"), gpus), whatif.CountNoun(gpus, "GPU")
	}
	return "", ""
}

// sortedRejections returns the rejections of a diagnosis, the largest first.
func sortedRejections(d *cluster.Diagnosis) []cluster.Rejection {
	out := slices.Clone(d.Rejected)
	slices.SortStableFunc(out, func(a, b cluster.Rejection) int { return cmp.Compare(b.Count, a.Count) })
	return out
}

func isDraining(i *cluster.Instance) bool { return i.Status == cluster.InstanceDraining }

func isCordoned(i *cluster.Instance) bool {
	_, cordoned := i.Attributes[cluster.AttributeUnschedulable]
	return cordoned
}

// firstInstance returns the first id of an instance in the cluster for which f holds; empty for
// none.
func (f roomFinder) firstInstance(holds func(*cluster.Instance) bool) string {
	var ids []string
	for _, v := range f.in.Snapshot.Instances {
		if v.Instance != nil && !v.IsDeregistered() && holds(v.Instance) {
			ids = append(ids, v.ID)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return slices.Min(ids)
}
