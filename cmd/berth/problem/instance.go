package problem

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/nodegroup"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// checkTasks reports standalone tasks that wait for an instance, by task definition.
func (f *finder) checkTasks() {
	waiting := map[string][]*cluster.Task{}
	for _, t := range f.in.Snapshot.ProvisioningTasks() {
		if t.Service == "" {
			waiting[t.TaskDefinition] = append(waiting[t.TaskDefinition], t)
		}
	}
	for n, name := range slices.Sorted(maps.Keys(waiting)) {
		tasks := waiting[name]
		first := slices.MinFunc(tasks, func(a, b *cluster.Task) int {
			return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
		})
		p := Problem{Kind: TaskUnplaced, Type: "task", Name: first.ID, Count: len(tasks),
			What: fmt.Sprintf("%s of %s %s no instance.", whatif.CountNoun(len(tasks), "standalone task"), name,
				map[bool]string{true: "has", false: "have"}[len(tasks) == 1])}
		// Explaining a task searches the whole cluster, so only the first definitions get one.
		if n < maxExplained {
			if a, err := whatif.ExplainTask(f.in.Snapshot, first.ID); err == nil && a.Explanation != nil {
				p.Why = sentence(a.Explanation.Text)
			}
		}
		var help []Help
		if first.Rules != nil {
			scaling, more := scalingHelp(f, first.Rules.Providers)
			p.Why, help = strings.TrimSpace(p.Why+" "+scaling), more
		}
		if !first.WaitUntil.IsZero() {
			p.Why += fmt.Sprintf(" The first stops waiting at %s.", formatTime(first.WaitUntil.Time()))
		}
		f.add(p, first.CreatedAt.Time(), append(help,
			Help{"See which instances were rejected, and why", f.berth("explain task %s", first.ID)},
			Help{"Give up on it", f.aws("stop-task --task %s", first.ID)})...)
	}
}

// maxExplained is how many task definitions of waiting tasks are explained.
const maxExplained = 10

// checkInstances reports instances that are disconnected, and those that no service can use.
func (f *finder) checkInstances() {
	checkDisconnected(f)
	answer, err := whatif.ExplainCluster(f.in.Snapshot)
	if err != nil {
		return // a service's task definition is unknown: nothing can be said about its instances
	}
	unused := map[string][]string{}
	for _, u := range answer.Unused {
		unused[u.Why] = append(unused[u.Why], u.Instance)
	}
	for _, why := range slices.Sorted(maps.Keys(unused)) {
		ids := unused[why]
		f.add(Problem{Kind: InstanceUnused, Type: "instance", Name: slices.Min(ids), Count: len(ids),
			What: fmt.Sprintf("No service can use %s.", whatif.CountNoun(len(ids), "instance")),
			Why:  fmt.Sprintf("%s: %s", listNames(ids), sentence(describeUnused(f.in.Snapshot, why, ids)))},
			unusedSince(f.in.Snapshot, ids),
			Help{"See what each service demands", f.berth("explain instance %s", slices.Min(ids))})
	}
}

// unusedSince returns since when no service can use the first of the instances: since it registered,
// or, if that was later, since the last change of its attributes or of what a service demands, or since
// there is a service.
// Services that are deleted count as long as their rows are kept.
func unusedSince(snap *snapshot.Snapshot, ids []string) (first time.Time) {
	var changed, oldest time.Time
	for _, s := range snap.Services {
		changed = latest(changed, s.RulesChangedAt)
		if at := s.CreatedAt; s.Status == cluster.ServiceActive && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
	}
	changed = latest(changed, oldest)
	for _, id := range ids {
		i := snap.Instances[id].Instance
		since := latest(changed, latest(i.RegisteredAt.Time(), i.AttributesChangedAt.Time()))
		if first.IsZero() || since.Before(first) {
			first = since
		}
	}
	return first
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// describeUnused says why no service can use instances. That is often because each service asks for a
// capacity provider, or because none tolerates a taint.
func describeUnused(snap *snapshot.Snapshot, why string, ids []string) string {
	services, asking := 0, 0
	for _, s := range snap.Services {
		if s.Status == cluster.ServiceActive {
			services++
			if len(s.Providers) > 0 {
				asking++
			}
		}
	}
	if why != placement.Unsuitable {
		return why
	}
	if len(ids) > 1 {
		why = "they do not meet the requirements of any service"
	}
	if asking == services && services > 0 {
		return why + ": every service asks for a capacity provider"
	}
	if taint := untolerated(snap, ids); taint != "" {
		return fmt.Sprintf("%s: no service tolerates the taint %s", why, taint)
	}
	return why
}

// untolerated returns a taint that all of the instances have and no ACTIVE service tolerates; empty if
// there is none.
func untolerated(snap *snapshot.Snapshot, ids []string) string {
	taints := func(id string) []cluster.Taint {
		return cluster.ReadTaints(snap.Instances[id].Attributes[cluster.AttributeTaints])
	}
	for _, taint := range taints(ids[0]) {
		everywhere := !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(taints(id), taint) })
		tolerated := false
		for _, s := range snap.Services {
			tolerated = tolerated || s.Status == cluster.ServiceActive && cluster.Tolerates(s.Rules.Tolerations, taint)
		}
		if everywhere && !tolerated {
			return taint.String()
		}
	}
	return ""
}

// checkDrains reports DRAINING instances whose tasks do not leave.
func (f *finder) checkDrains() {
	for _, id := range slices.Sorted(maps.Keys(f.in.Snapshot.Instances)) {
		v := f.in.Snapshot.Instances[id]
		if v.Instance == nil || v.Status != cluster.InstanceDraining {
			continue
		}
		var reasons []string
		var help []Help
		for _, t := range v.Tasks {
			reason, h := f.whyStays(t)
			if reason != "" {
				reasons = append(reasons, reason)
			}
			if h != nil && len(help) < 3 && !slices.Contains(help, *h) {
				help = append(help, *h)
			}
		}
		if len(reasons) == 0 {
			continue
		}
		help = append(help, returnToService(f, v.Instance))
		slices.Sort(reasons)
		f.add(Problem{Kind: DrainWaits, Type: "instance", Name: id, Count: len(reasons),
			What: fmt.Sprintf("The drain of instance %s waits for %s.", id, whatif.CountNoun(len(reasons), "task")),
			Why:  sentence(listReasons(reasons))}, f.drainingSince(v.Instance), help...)
	}
}

// returnToService returns what lets a draining instance take tasks again. What drains it by itself, an
// upgrade or consolidation, would do so again.
func returnToService(f *finder, i *cluster.Instance) Help {
	if k := f.in.Capacity; k != nil {
		for _, name := range slices.Sorted(maps.Keys(k.Updates)) {
			if u := k.Updates[name]; !u.HasEnded() && u.RemovalOf(i.EC2InstanceID) != nil {
				return Help{"See the steps of the upgrade that drains it", f.berth("upgrade %s", name)}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(k.Histories)) {
			for _, d := range k.Histories[name].Drains {
				if d.Instance == i.ID && !d.Finished && !d.Cancelled {
					return Help{"Switch off the consolidation that empties it, which lets it take tasks again",
						f.berth("consolidate %s --off", name)}
				}
			}
		}
	}
	return Help{"Let it take tasks again", f.aws(
		"update-container-instances-state --status ACTIVE --container-instances %s", i.ID)}
}

// whyStays says why a task does not leave a DRAINING instance, empty if it will, and what would end
// that.
func (f *finder) whyStays(t *cluster.Task) (string, *Help) {
	if t.IsActive() && f.isProtected(t) {
		p := f.in.Snapshot.Protection(t.Owner, t.ID)
		return fmt.Sprintf("task %s of service %s is protected until %s", t.ID, t.Service, formatTime(p.Until)),
			&Help{"End the protection", f.aws("update-task-protection --no-protection-enabled --tasks %s",
				t.ID)}
	}
	rows := nodegroup.NewRows()
	v := f.in.Snapshot.Instances[t.Instance]
	member := *v.Instance
	member.EC2InstanceID = "one"
	rows.Add(&member, f.in.Now)
	rows.Add(t, f.in.Now)
	if s := f.in.Snapshot.Services[t.Service]; s != nil && s.Short == t.Owner {
		rows.Add(s, f.in.Now)
	}
	one := &cluster.AutoScalingGroup{Instances: []cluster.GroupInstance{{ID: member.EC2InstanceID}}}
	for _, m := range rows.Members(one) {
		blocking := nodegroup.BlockingTasks(m, false, false)
		switch {
		case len(blocking) == 0:
		case t.Service == "":
			return blocking[0] + " belongs to no service, so nothing replaces it",
				&Help{"Stop it", f.aws("stop-task --task %s", t.ID)}
		default:
			s := f.in.Snapshot.Services[t.Service]
			if s == nil || s.Blocked != nil {
				return blocking[0], &Help{"See service " + t.Service, f.berth("explain service %s", t.Service)}
			}
			return blocking[0], &Help{"Let service " + t.Service + " replace its tasks", f.percentages(s)}
		}
	}
	return "", nil
}

// drainingSince returns when Berth first saw the instance DRAINING. For a row from before Berth noted
// that, it is when an update or consolidation made it so; zero if somebody else did.
func (f *finder) drainingSince(i *cluster.Instance) time.Time {
	switch {
	case !i.DrainingAt.IsZero():
		return i.DrainingAt.Time()
	case f.in.Capacity == nil:
		return time.Time{}
	}
	for _, u := range f.in.Capacity.Updates {
		if r := u.RemovalOf(i.EC2InstanceID); r != nil {
			return r.DrainingAt
		}
	}
	for _, h := range f.in.Capacity.Histories {
		for _, d := range h.Drains {
			if d.Instance == i.ID && !d.Finished {
				return d.At
			}
		}
	}
	return time.Time{}
}

// listReasons joins the first reasons, and says how many more there are. One that several tasks have
// is there once, with their number.
func listReasons(all []string) string {
	var reasons []string
	for n, r := range all {
		if n == 0 || r != all[n-1] {
			reasons = append(reasons, r)
		}
	}
	for n, r := range reasons {
		if same := countText(all, r); same > 1 {
			reasons[n] = fmt.Sprintf("%s (%d tasks)", r, same)
		}
	}
	if more := len(reasons) - listed; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(reasons[:listed], "; "), more)
	}
	return strings.Join(reasons, "; ")
}

func countText(all []string, text string) (n int) {
	for _, t := range all {
		if t == text {
			n++
		}
	}
	return n
}
