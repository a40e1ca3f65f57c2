package nodegroup

import (
	"fmt"
	"iter"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// Rows are the rows of a cluster that an update of its nodes depends on.
type Rows struct {
	instances map[string]*cluster.Instance // by EC2 id
	tasks     map[string][]*cluster.Task   // that hold capacity, by container instance
	services  map[string]*cluster.Service  // by short key
	protected map[string]bool              // task ids
}

// NewRows returns no rows yet.
func NewRows() *Rows {
	return &Rows{
		instances: map[string]*cluster.Instance{}, tasks: map[string][]*cluster.Task{},
		services: map[string]*cluster.Service{}, protected: map[string]bool{},
	}
}

// AddAll adds rows, of any kind.
func (r *Rows) AddAll(rows []state.Row, now time.Time) {
	for _, row := range rows {
		r.Add(row, now)
	}
}

// Add adds a row, of any kind.
func (r *Rows) Add(row state.Row, now time.Time) {
	switch row := row.(type) {
	case *cluster.Instance:
		if row.EC2InstanceID != "" && row.Supersedes(r.instances[row.EC2InstanceID]) {
			r.instances[row.EC2InstanceID] = row
		}
	case *cluster.Service:
		r.services[row.Short] = row
	case *cluster.Task:
		if row.HoldsCapacity() {
			r.tasks[row.Instance] = append(r.tasks[row.Instance], row)
		}
	case *cluster.Protection:
		if row.IsActive(now) {
			r.protected[row.Task] = true
		}
	}
}

// Instance returns the container instance that an EC2 instance registered as; nil if there is none.
func (r *Rows) Instance(ec2ID string) *cluster.Instance { return r.instances[ec2ID] }

// HasInstance reports whether the rows have a container instance.
func (r *Rows) HasInstance(id string) bool {
	for _, i := range r.instances {
		if i.ID == id {
			return true
		}
	}
	return false
}

// Members returns the instances of the Auto Scaling group with what is on them.
func (r *Rows) Members(g *cluster.AutoScalingGroup) (members []Instance) {
	for k := range g.Instances {
		i := &g.Instances[k]
		m := Instance{
			ID: i.ID, Zone: i.Zone, Template: i.Template, Lifecycle: LifecycleOf(i.Lifecycle), Row: r.instances[i.ID],
		}
		if m.Row != nil {
			m.Tasks = r.tasksOn(m.Row.ID)
		}
		members = append(members, m)
	}
	return members
}

func (r *Rows) tasksOn(instance string) (tasks []Task) {
	for _, t := range r.tasks[instance] {
		s := r.services[t.Owner]
		if s != nil {
			s = s.OfRevision(t.Revision)
		}
		tasks = append(tasks, Task{
			Task: t, Daemon: s != nil && s.Strategy == cluster.Daemon, Protected: r.protected[t.ID],
			BlockedReason: whyTasksBlocked(s),
		})
	}
	return tasks
}

// whyTasksBlocked says why a service may not let a task go: because of its percentages, or because
// another has no room.
func whyTasksBlocked(s *cluster.Service) string {
	if s == nil || s.Strategy == cluster.Daemon {
		return ""
	}
	if s.Blocked != nil {
		return fmt.Sprintf("no room for a replacement: %s", s.Blocked)
	}
	if least, most := s.TaskBounds(s.Desired); s.Running <= least && most <= s.Running {
		return fmt.Sprintf("service %s must keep %d of its tasks RUNNING and may have at most %d", s.Name, least, most)
	}
	return ""
}

// Unhealthy describes the services that have fewer healthy tasks than they should, by short key
// (N7). If most of the cluster looks unhealthy, and therefore nothing is replaced, that is no
// reason to go on.
func (r *Rows) Unhealthy() map[string]string {
	unhealthy := map[string]string{}
	for _, s := range r.services {
		for _, part := range s.Parts() {
			if healthy := part.HealthyCount(); s.Status == cluster.ServiceActive && healthy < part.Desired {
				unhealthy[s.Short] = fmt.Sprintf("service %s has %d of %d tasks healthy", s.Name, healthy, part.Desired)
			}
		}
	}
	return unhealthy
}

// NodesOf returns the instances of an Auto Scaling group with what is on them, according to the
// rows of their cluster.
func NodesOf(g *cluster.AutoScalingGroup, rows iter.Seq[state.Row], now time.Time) []Instance {
	r := NewRows()
	for row := range rows {
		r.Add(row, now)
	}
	return r.Members(g)
}

// scaleOutDelay is how long the desired capacity may take to follow after managed scaling has
// recorded that it scales out.
const scaleOutDelay = time.Minute

// IsGrowing reports whether managed scaling is raising the group's desired capacity (N5): it last
// scaled out just now, or since the update began to remove the surplus. What it added before that
// is part of the sizes to restore.
func IsGrowing(u *cluster.Update, lastOut, now time.Time) bool {
	if lastOut.IsZero() {
		return false
	}
	return u.DesiredFloor != nil && lastOut.After(u.ScaleDownSince) && !cluster.IsAhead(lastOut, now) ||
		cluster.RemainingWait(lastOut.Add(scaleOutDelay), now, scaleOutDelay) > 0
}
