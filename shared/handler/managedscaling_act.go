package handler

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"berth/shared/cluster"
	"berth/shared/scaling"
)

// act carries out a decision, in the order in which it is safe: what gets tasks is protected before anything is let go of,
// and the group's size comes last. What fails ends it: the next round decides anew.
func (r *scalingRound) act(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, d *scaling.Decision) error {
	if len(d.Protect) > 0 {
		if err := r.Groups.SetInstanceProtection(r.ctx, g.Name, d.Protect, true); err != nil {
			return fmt.Errorf("protecting instances: %w", err)
		}
	}
	released, err := r.release(g, d)
	if err != nil || !released {
		return err
	}
	for _, id := range d.Undrain {
		if err := r.Hosts.ActivateInstance(r.ctx, r.of.Cluster, id); err != nil {
			return fmt.Errorf("having instance %s take tasks again: %w", id, err)
		}
	}
	if err := r.takeIn(d.Undrain); err != nil {
		return err
	}
	for _, id := range d.Drain {
		if err := r.ECS.DrainInstance(r.ctx, r.of.Cluster, id); err != nil {
			return fmt.Errorf("draining instance %s: %w", id, err)
		}
	}
	for _, id := range d.Terminate {
		if err := r.Groups.TerminateInstance(r.ctx, id, true); err != nil {
			return fmt.Errorf("terminating instance %s: %w", id, err)
		}
	}
	if err := r.replace(d.Replace); err != nil {
		return err
	}
	if d.Desired == g.Desired-len(d.Terminate) {
		return nil
	}
	logger(r.Log).Info("desired capacity", "cluster", r.of.Cluster, "provider", p.Name, "from", g.Desired, "to", d.Desired, "why", d.Why)
	return wrap(r.Groups.SetDesired(r.ctx, g.Name, d.Desired), "setting the desired capacity of group %s to %d", g.Name, d.Desired)
}

// replace terminates instances that never registered, and the group launches others.
func (r *scalingRound) replace(ids []string) error {
	for _, id := range ids {
		if err := r.Groups.TerminateInstance(r.ctx, id, false); err != nil {
			return fmt.Errorf("replacing instance %s: %w", id, err)
		}
	}
	return nil
}

// release lets the group take instances without tasks. That is written first, under the placement version that the decision
// rests on: whoever then places a task there knows of it, and has the instance protected before the task is started (C6).
// Where placement has moved on meanwhile nothing is released, or taken away, this time.
func (r *scalingRound) release(g *cluster.AutoScalingGroup, d *scaling.Decision) (done bool, err error) {
	byEC2 := map[string]*cluster.Instance{}
	for _, v := range r.snap.Instances {
		if v.Instance != nil && !v.Gone() {
			byEC2[v.EC2InstanceID] = v.Instance
		}
	}
	for _, id := range d.Release {
		i := byEC2[id]
		if i == nil {
			continue
		}
		next := *i
		next.Rev++
		next.Stamp, next.ReleasedIn = r.snap.Meta.Version+1, g.Name
		err := r.State.Commit(r.ctx, cluster.Commit{Cluster: r.of.Cluster, Version: r.snap.Meta.Version, Writes: []cluster.Write{{Put: &next}}})
		var c *cluster.Conflict
		if errors.As(err, &c) {
			logger(r.Log).Info("nothing is released: the cluster has changed meanwhile", "cluster", r.of.Cluster, "instance", id)
			return d.Desired >= g.Desired && len(d.Terminate) == 0, nil
		}
		if err != nil {
			return false, fmt.Errorf("noting that instance %s is released: %w", id, err)
		}
		meta := r.snap.Meta
		meta.Version++
		r.snap.Put(&meta)
		r.snap.Put(&next)
	}
	if len(d.Release) == 0 {
		return true, nil
	}
	if err := r.Groups.SetInstanceProtection(r.ctx, g.Name, d.Release, false); err != nil {
		return false, fmt.Errorf("releasing instances: %w", err)
	}
	return r.undisturbed(g, d)
}

// undisturbed protects again what was released if placement has moved on meanwhile: dispatch may have protected an instance
// for a task just before it was released.
func (r *scalingRound) undisturbed(g *cluster.AutoScalingGroup, d *scaling.Decision) (bool, error) {
	row, err := r.State.Get(r.ctx, r.snap.Meta.Key())
	if err != nil {
		return false, fmt.Errorf("reading cluster %s: %w", r.of.Cluster, err)
	}
	if meta, ok := row.(*cluster.Meta); ok && meta != nil && meta.Version == r.snap.Meta.Version {
		return true, nil
	}
	return false, wrap(r.Groups.SetInstanceProtection(r.ctx, g.Name, d.Release, true), "protecting instances again")
}

// claimInstances names the provider on those of its group's instances that ECS names none for, so that tasks are placed
// there. That comes before any decision: what is not the provider's yet looks as if no task fitted there.
func (r *scalingRound) claimInstances(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup) error {
	member := map[string]bool{}
	for _, i := range g.Instances {
		member[i.ID] = true
	}
	unnamed := map[string]bool{}
	for id, v := range r.snap.Instances {
		if v.Instance != nil && !v.Gone() && member[v.EC2InstanceID] && v.CapacityProvider() != p.Name && v.Provider == "" {
			unnamed[id] = true
		}
	}
	ids := sortedKeys(unnamed)
	for _, id := range ids {
		if err := r.Hosts.PutAttribute(r.ctx, r.of.Cluster, id, cluster.AttributeProvider, p.Name); err != nil {
			return fmt.Errorf("marking instance %s: %w", id, err)
		}
	}
	return r.takeIn(ids)
}

// takeIn takes in instances that were just changed: no event tells of an ACTIVE one that has tasks.
func (r *scalingRound) takeIn(ids []string) error {
	if err := r.observe(ids); err != nil {
		return err
	}
	for _, id := range ids {
		row, err := r.State.Get(r.ctx, cluster.InstanceKey(r.of.Cluster, id))
		if err != nil {
			return fmt.Errorf("reading instance %s: %w", id, err)
		}
		if i, ok := row.(*cluster.Instance); ok && i != nil {
			r.snap.Put(i)
		}
	}
	return nil
}

func (r *scalingRound) observe(ids []string) error {
	o := &observer{state: r.State, now: r.Clock.Now(), settings: r.Settings, log: logger(r.Log)}
	return o.instances(r.ctx, r.ECS, r.of.Cluster, ids)
}

// waitsToTerminate is the state of an instance whose termination the lifecycle hook holds up.
const waitsToTerminate = "Terminating:Wait"

// beats are when the hooks of the instances that wait to be terminated were last told to wait on, those of this round
// included.
func (r *scalingRound) beats(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, old map[string]time.Time) map[string]time.Time {
	var out map[string]time.Time
	for _, i := range g.Instances {
		if !p.Draining || i.Lifecycle != waitsToTerminate {
			continue
		}
		at, known := old[i.ID]
		if !known || r.Clock.Now().Sub(at) >= hookHeartbeat/2 {
			at = r.Clock.Now()
		}
		if out == nil {
			out = map[string]time.Time{}
		}
		out[i.ID] = at
	}
	return out
}

// drainTerminating drains instances that are being terminated, has them wait for their tasks, and lets them go once there
// are none, or nothing is left that could end them: the instance is gone, or its agent has been disconnected for too long
// (C6).
func (r *scalingRound) drainTerminating(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, before, now map[string]time.Time) error {
	byEC2 := maps.Collect(func(yield func(string, *cluster.InstanceView) bool) {
		for _, v := range r.snap.Instances {
			if v.Instance != nil && !v.Gone() && !yield(v.EC2InstanceID, v) {
				return
			}
		}
	})
	var failed []error
	for _, id := range sortedKeys(now) {
		v := byEC2[id]
		switch {
		case v == nil, v.Status == cluster.InstanceDraining && len(v.Tasks) == 0, r.lost(v):
			failed = append(failed, wrap(r.Groups.CompleteLifecycleAction(r.ctx, g.Name, cluster.DrainingHook, id), "letting instance %s go", id))
		case v.Status != cluster.InstanceDraining:
			failed = append(failed, wrap(r.ECS.DrainInstance(r.ctx, r.of.Cluster, v.ID), "draining instance %s", id))
		case !before[id].IsZero() && !before[id].Equal(now[id]):
			failed = append(failed, wrap(r.Groups.RecordHeartbeat(r.ctx, g.Name, cluster.DrainingHook, id), "having instance %s wait", id))
		}
	}
	return errors.Join(failed...)
}

// lost reports whether the instance's agent has been away for so long that its tasks are given up (S11).
func (r *scalingRound) lost(v *cluster.InstanceView) bool {
	return !v.AgentConnected && v.DisconnectedAt != 0 && r.Clock.Now().Sub(v.DisconnectedAt.Time()) >= r.Settings.LostAfter
}
