package snapshot

import (
	"maps"
	"slices"

	"berth/shared/cluster"
)

// An Application is an application of the configuration, with its metrics by number.
type Application struct {
	Name                       string
	MinimumNodes, MaximumNodes int
	// Limits are those of its metrics, in the order of names.
	Limits []ApplicationLimit
}

// An ApplicationLimit is what an application may use of one metric.
type ApplicationLimit struct {
	Name   string
	Metric int // see [Snapshot.MetricIndex]
	cluster.ApplicationMetric
}

// An ApplicationUse is what the tasks of one application use on one instance. Loads are in the order
// of the application's limits.
type ApplicationUse struct {
	Tasks int     // that hold capacity
	Loads []int64 // of these
	// Reservations are what the application has reserved there, used or not: see
	// [InstanceView.ReservationsOf].
	Reservations []int64
	// Counted are the tasks that count for the application as a whole, CountedLoads their loads: a
	// task and its replacement count as one, and tasks that have to leave, because they stop or the
	// instance drains, do not count.
	Counted      int
	CountedLoads []int64
}

// An applicationSet knows the applications of a cluster and the owners whose tasks are theirs.
type applicationSet struct {
	applications         []*Application    // sorted by name
	ofOwner              map[string]string // the application's name, by the owner's short key
	applicationsRevision int
}

// Applications returns the applications of the configuration, sorted by name. The caller must not
// change them.
func (x *applicationSet) Applications() []*Application { return x.applications }

// Application returns the application with the name, or nil if the configuration has none: then
// nothing limits it.
func (x *applicationSet) Application(name string) *Application {
	if name == "" {
		return nil
	}
	for _, a := range x.applications {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// ApplicationsRevision changes with the limits of applications.
func (x *applicationSet) ApplicationsRevision() int { return x.applicationsRevision }

// ApplicationOf returns the name of the owner's application, or "".
func (x *applicationSet) ApplicationOf(owner string) string { return x.ofOwner[owner] }

// setApplications replaces the limits of all applications.
func setApplications(s *Snapshot, limits map[string]cluster.Application) {
	if len(limits)+len(s.applications) == 0 {
		return
	}
	s.applications = nil
	s.applicationsRevision++
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		of := limits[name]
		a := &Application{Name: name, MinimumNodes: of.MinimumNodes, MaximumNodes: of.MaximumNodes}
		for _, metric := range slices.Sorted(maps.Keys(of.Metrics)) {
			a.Limits = append(a.Limits, ApplicationLimit{metric, s.MetricIndex(metric), of.Metrics[metric]})
		}
		s.applications = append(s.applications, a)
	}
}

// setApplicationOf replaces the name of the owner's application, and marks the instances of its
// tasks as changed.
func setApplicationOf(s *Snapshot, owner, name string) {
	if s.ofOwner[owner] == name {
		return
	}
	if s.ofOwner == nil {
		s.ofOwner = map[string]string{}
	}
	if s.ofOwner[owner] = name; name == "" {
		delete(s.ofOwner, owner)
	}
	for _, t := range s.TasksOf(owner) {
		if v := s.Instances[t.Instance]; v != nil && t.HoldsCapacity() {
			s.journal.addChange(v.Index, nil)
		}
	}
}

// UseOf returns what the application's tasks use on the instance.
func (v *InstanceView) UseOf(a *Application) ApplicationUse {
	s, out := v.snap, ApplicationUse{}
	leaving := v.Instance != nil && v.Status == cluster.InstanceDraining
	for _, t := range v.Tasks {
		if s.ofOwner[t.Owner] != a.Name {
			continue
		}
		if out.Loads == nil {
			out.Loads, out.CountedLoads = make([]int64, len(a.Limits)), make([]int64, len(a.Limits))
			out.Reservations = v.ReservationsOf(a)
		}
		o := s.owners[t.Owner]
		counts := !leaving && o.countsForSpread(t)
		out.Tasks++
		if counts {
			out.Counted++
		}
		s.loadsOf(t, o, func(metric int, load int64) {
			for n := range a.Limits {
				if a.Limits[n].Metric != metric {
					continue
				}
				if out.Loads[n] += load; counts {
					out.CountedLoads[n] += load
				}
			}
		})
	}
	return out
}

// ReservationsOf returns what the application has reserved on an instance with its tasks, in the order
// of its limits. If its reservation is more than the instance takes without the buffer, because it was
// raised or the first task had no load, that is all it has: no load is beside it, and none is too much.
func (v *InstanceView) ReservationsOf(a *Application) []int64 {
	out := make([]int64, len(a.Limits))
	for n := range a.Limits {
		out[n] = min(a.Limits[n].Reservation, v.Limit(a.Limits[n].Metric).Unbuffered)
	}
	return out
}

// UnusedReservation returns how much of its n-th metric the application has reserved on the
// instance and does not use. An instance without its tasks has no reservation.
func (use *ApplicationUse) UnusedReservation(n int) int64 {
	if use.Tasks == 0 {
		return 0
	}
	return max(0, use.Reservations[n]-use.Loads[n])
}

// ReservedLoad returns how much of the metric applications have reserved on the instance and do not
// use. No other service may use it (P12).
func (v *InstanceView) ReservedLoad(metric int) (reserved int64) {
	for _, a := range v.snap.applications {
		for n := range a.Limits {
			if a.Limits[n].Metric == metric && a.Limits[n].Reservation > 0 {
				use := v.UseOf(a)
				reserved += use.UnusedReservation(n)
			}
		}
	}
	return reserved
}

// ExceedsApplication reports whether an application has more load on the instance than it may have
// there. Loads of tasks that end count.
func (v *InstanceView) ExceedsApplication() bool {
	for _, a := range v.snap.applications {
		use := v.UseOf(a)
		for n, load := range use.Loads {
			if a.Limits[n].NodeCapacity > 0 && load > a.Limits[n].NodeCapacity {
				return true
			}
		}
	}
	return false
}
