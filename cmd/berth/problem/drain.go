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
)

// checkDrains reports DRAINING instances whose tasks do not leave.
func (f *finder) checkDrains() {
	for _, id := range slices.Sorted(maps.Keys(f.in.Snapshot.Instances)) {
		v := f.in.Snapshot.Instances[id]
		if v.Instance == nil || v.Status != cluster.InstanceDraining {
			continue
		}
		var reasons []string
		var remedies []remedy
		for _, t := range v.Tasks {
			if reason, r := f.whyStays(t); reason != "" {
				reasons, remedies = append(reasons, reason), append(remedies, r)
			}
		}
		if len(reasons) == 0 {
			continue
		}
		help := append(listRemedies(f, remedies, 3), returnToService(f, v.Instance))
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

// remedy is what would let a task leave a DRAINING instance.
type remedy struct {
	loss int // what it costs, from what changes nothing to what ends a task
	help Help
	// protected is the task whose protection ends; one command ends those of several.
	protected string
}

// The losses of remedies.
const (
	changesNothing = iota
	changesService
	endsProtection
	stopsTask
)

// listRemedies returns the commands of the remedies, those by which the least is lost first, at most so many.
func listRemedies(f *finder, remedies []remedy, most int) (help []Help) {
	slices.SortFunc(remedies, func(a, b remedy) int {
		return cmp.Or(cmp.Compare(a.loss, b.loss), strings.Compare(a.protected, b.protected),
			strings.Compare(a.help.Command, b.help.Command))
	})
	var protected []string
	for _, r := range remedies {
		if r.loss == endsProtection && len(protected) < maxProtected {
			protected = append(protected, r.protected)
		}
	}
	for _, r := range remedies {
		if r.loss == endsProtection {
			what := "End the protection"
			if len(protected) > 1 {
				what = fmt.Sprintf("End the protection of %d tasks", len(protected))
			}
			r.help = Help{what, f.aws("update-task-protection --no-protection-enabled --tasks %s",
				strings.Join(protected, " "))}
		}
		if len(help) < most && !slices.Contains(help, r.help) {
			help = append(help, r.help)
		}
	}
	return help
}

// whyStays says why a task does not leave a DRAINING instance, empty if it will, and what would end
// that.
func (f *finder) whyStays(t *cluster.Task) (string, remedy) {
	if t.IsActive() && f.isProtected(t) {
		p := f.in.Snapshot.Protection(t.Owner, t.ID)
		return fmt.Sprintf("task %s of service %s is protected until %s", t.ID, t.Service, formatTime(p.Until)),
			remedy{loss: endsProtection, protected: t.ID}
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
				remedy{loss: stopsTask, help: Help{"Stop standalone task " + t.ID, f.aws("stop-task --task %s", t.ID)}}
		default:
			s := f.in.Snapshot.Services[t.Service]
			if s == nil || s.Blocked != nil {
				return blocking[0], remedy{help: Help{"See why service " + t.Service + " finds no room",
					f.berth("explain service %s", t.Service)}}
			}
			return blocking[0], remedy{loss: changesService,
				help: Help{"Let service " + t.Service + " replace its tasks", f.percentages(s)}}
		}
	}
	return "", remedy{}
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
