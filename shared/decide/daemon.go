package decide

import (
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// What a DAEMON service's tasks will need is kept free on each instance that should have one and has none yet: throttled, no
// room, or still of an older revision (S4). It is worked out anew with each decision about the service: from the rows alone.

// ReserveAll keeps free what the DAEMON services need that are not to be looked at anyway, once for a snapshot that was read
// anew.
func (d *decider) ReserveAll(w *Work) {
	if d.warm.reserved {
		return
	}
	d.warm.reserved = true
	for _, name := range slices.Sorted(maps.Keys(d.snap.Daemons())) {
		if !w.Services[name] {
			d.reserve(d.snap.Daemons()[name])
		}
	}
}

// reserve keeps free what the service's tasks that are yet to come will need, less what those there hold. Instances that do
// not qualify any more are released.
func (d *decider) reserve(s *cluster.Service) {
	coming, def := d.coming(s)
	if def == nil || s.Status != cluster.ServiceActive {
		d.snap.Reserve(s.Short, nil)
		return
	}
	held, current := map[string]cluster.Resources{}, map[string]bool{}
	for _, t := range d.snap.Owned(s.Short) {
		if !t.Holds() {
			continue
		}
		h := held[t.Instance]
		h.CPU, h.Memory, h.ENIs = h.CPU+t.Needs.CPU, h.Memory+t.Needs.Memory, h.ENIs+t.Needs.ENIs
		held[t.Instance] = h
		current[t.Instance] = current[t.Instance] || t.Active() && t.Revision == coming.ID
	}
	on := map[*snapshot.InstanceView]cluster.Resources{}
	comes := d.specs.Service(s, def, "")
	for _, id := range d.eligible(s) {
		v, h := d.snap.Instances[id], held[id]
		if current[id] || !d.engine.Matches(v, comes) || !d.couldHold(v, s, def) {
			continue
		}
		need := cluster.Resources{
			CPU: max(0, def.Needs.CPU-h.CPU), Memory: max(0, def.Needs.Memory-h.Memory), ENIs: max(0, def.Needs.ENIs-h.ENIs),
		}
		if need != (cluster.Resources{}) {
			on[v] = need
		}
	}
	d.snap.Reserve(s.Short, on)
}

// eligible are the instances that a DAEMON service has a task on: by the PRIMARY deployment's task definition, failed or not.
func (d *decider) eligible(s *cluster.Service) []string {
	def := d.snap.Definitions[s.Deployment.TaskDefinition]
	if def == nil {
		return nil
	}
	return d.engine.Eligible(d.specs.Service(s, def, ""))
}

// released notes where less is kept free for the service than was, for those that wait for room.
func (d *decider) released(s *cluster.Service, kept map[*snapshot.InstanceView]cluster.Resources, w *Work) {
	for v, was := range kept {
		is := d.snap.Reservations(s.Short)[v]
		if is.CPU < was.CPU || is.Memory < was.Memory || is.ENIs < was.ENIs {
			w.freed[v.ID] = true
		}
	}
}

// coming is the deployment whose tasks a DAEMON service starts, with their task definition: one that has failed starts none. The
// definition is nil where there are none to come.
func (d *decider) coming(s *cluster.Service) (*cluster.Deployment, *cluster.TaskDefinition) {
	next := &s.Deployment
	for k := 0; next.State == cluster.RolloutFailed && k < len(s.Older); k++ {
		next = &s.Older[k]
	}
	if next.State == cluster.RolloutFailed {
		return next, nil
	}
	return next, d.snap.Definitions[next.TaskDefinition]
}

// couldHold reports whether the instance, were it empty, would have room for a task of the service: for one that can never come
// nothing is kept.
func (d *decider) couldHold(v *snapshot.InstanceView, s *cluster.Service, def *cluster.TaskDefinition) bool {
	need, has := def.Needs, v.Registered
	if need.CPU > has.CPU || need.Memory > has.Memory || need.GPUs > len(has.GPUs) || has.ENIs != nil && int(need.ENIs) > *has.ENIs {
		return false
	}
	for _, m := range s.Rules.Metrics {
		if m.Load > v.Limit(d.snap.MetricIndex(m.Name)).Total {
			return false
		}
	}
	return true
}

// roomKept reports whether there is now as much room on an instance as a DAEMON service's task needs, with what is kept free
// for it.
func (d *decider) roomKept(s *cluster.Service, id string) bool {
	v := d.snap.Instances[id]
	_, def := d.coming(s)
	own, kept := d.snap.Reservations(s.Short)[v]
	if !kept || def == nil {
		return false
	}
	need, others := def.Needs, v.Reserved()
	return v.CPU-others.CPU+own.CPU >= need.CPU && v.Memory-others.Memory+own.Memory >= need.Memory &&
		v.ENIs-int(others.ENIs)+int(own.ENIs) >= int(need.ENIs)
}
