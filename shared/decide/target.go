package decide

import (
	"berth/shared/cluster"
	service "berth/shared/service"
	"berth/shared/state"
)

// MostTargets is how many tasks one outbox row names whose registrations are to be looked at.
const MostTargets = 500

// register has tasks registered that have come to be RUNNING, and the registrations of those that have ended wound up (S9).
func (d *decider) register(s *cluster.Service, p service.Plan, log *eventLog) {
	for _, t := range p.RegisterTargets {
		if now := d.snap.Task(t.Owner, t.ID); now == nil || !now.Active() {
			continue // stopped by the same plan
		}
		d.plan.room(2)
		d.plan.put(d.target(log.service, t))
		d.plan.registrations(t.Owner, t.ID)
	}
	for _, t := range p.DeregisterTargets {
		d.windUp(t.Owner, t.ID)
	}
}

// windUp has the registrations of a task that has ended taken out, once: dispatch deletes the row when that is done.
func (d *decider) windUp(owner, id string) {
	key := state.TargetKey(d.snap.Meta.Cluster, owner, id)
	if d.warm.Winding[key] {
		return
	}
	d.warm.Winding[key] = true
	d.plan.room(1)
	if o := d.plan.beside; o != nil && len(o.Targets) >= MostTargets {
		d.plan.close()
	}
	d.plan.registrations(owner, id)
}

// target is where a task of the service is to be registered.
func (d *decider) target(s *cluster.Service, t *cluster.Task) *cluster.Target {
	row := &cluster.Target{
		Head: cluster.Head{Cluster: s.Cluster, Rev: 1}, Task: t.ID, Owner: t.Owner, Service: s.Name,
	}
	revision := s.Revision(t.Revision)
	if revision == nil {
		return row
	}
	for _, lb := range revision.LoadBalancers {
		row.Registrations = append(row.Registrations, cluster.Registration{
			ARN: lb.TargetGroup, Container: lb.Container, ContainerPort: lb.Port,
		})
	}
	for _, r := range revision.Registries {
		row.Registrations = append(row.Registrations, cluster.Registration{
			ARN: r.ARN, Registry: true, Container: r.Container, ContainerPort: r.ContainerPort, Port: r.Port,
		})
	}
	return row
}

// tell notes that the service's events have what became of registrations.
func (d *decider) tell(targets []*cluster.Target) {
	for _, t := range targets {
		next := *t
		next.Rev++
		for _, r := range t.Registrations {
			switch r.State {
			case cluster.Registered, cluster.RegistrationFailed:
				next.Told = true
			case cluster.Deregistered:
				next.Told, next.ToldDrain = true, true
			}
		}
		d.plan.room(1)
		d.plan.put(&next)
	}
}
