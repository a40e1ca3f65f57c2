package handler

import (
	"berth/shared/cluster"
)

// What a DAEMON service's tasks will need is kept free on each instance that should have one and has none yet: throttled, no
// room, or still of an older revision (S4). It is worked out anew with each decision about the service: from the rows alone.

// reserveAll keeps free what the DAEMON services need that are not to be looked at anyway, once for a snapshot that was read
// anew.
func (d *decider) reserveAll(w *work) {
	if d.warm.reserved {
		return
	}
	d.warm.reserved = true
	for _, name := range sortedKeys(d.snap.Daemons()) {
		if !w.services[name] {
			d.reserve(d.snap.Daemons()[name])
		}
	}
}

// reserve keeps free what the service's tasks that are yet to come will need, less what those there hold. Instances that do
// not qualify any more are released.
func (d *decider) reserve(s *cluster.Service) {
	def := d.snap.Definitions[s.Deployment.TaskDefinition]
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
		current[t.Instance] = current[t.Instance] || t.Active() && t.Revision == s.Deployment.ID
	}
	on := map[*cluster.InstanceView]cluster.Resources{}
	for _, id := range d.engine.Eligible(d.specs.service(s, def, "")) {
		v, h := d.snap.Instances[id], held[id]
		if current[id] || def.Needs.CPU > v.Registered.CPU || def.Needs.Memory > v.Registered.Memory { // there, or never
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
