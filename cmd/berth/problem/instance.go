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
