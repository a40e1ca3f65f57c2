package managedscaling

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/observe"
	"berth/shared/scaling"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// act carries out a decision, in the order in which it is safe: what gets tasks is protected before anything is let go of,
// and the group's size comes last. What fails ends it: the next round decides anew. Sized is whether all was done.
func (r *scalingRound) act(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, d *scaling.Decision) (sized bool, err error) {
	if len(d.Protect) > 0 {
		if err := r.Groups.SetInstanceProtection(r.ctx, g.Name, d.Protect, true); err != nil {
			return false, fmt.Errorf("protecting instances: %w", err)
		}
	}
	if err := errors.Join(r.note(d.Forget, ""), r.note(d.Note, g.Name)); err != nil {
		return false, err
	}
	released, err := r.release(p, g, d.Release)
	if err != nil || !released {
		return false, err
	}
	for _, id := range d.Undrain {
		if err := r.Hosts.ActivateInstance(r.ctx, r.of.Cluster, id); err != nil {
			return false, fmt.Errorf("having instance %s take tasks again: %w", id, err)
		}
	}
	if err := r.takeIn(d.Undrain); err != nil {
		return false, err
	}
	for _, id := range d.Drain {
		if err := r.ECS.DrainInstance(r.ctx, r.of.Cluster, id); err != nil {
			return false, fmt.Errorf("draining instance %s: %w", id, err)
		}
	}
	if err := r.takeIn(d.Drain); err != nil { // the next provider's decision knows of it
		return false, err
	}
	return r.resize(p, g, d)
}

// resize has instances terminated, and sets the desired capacity: if the group still is what the decision rests on.
func (r *scalingRound) resize(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, d *scaling.Decision) (sized bool, err error) {
	if d.Desired == g.Desired && len(d.Replace) == 0 {
		return true, nil
	}
	if same, err := r.unchanged(g); err != nil || !same {
		return false, err
	}
	for _, id := range d.Terminate {
		if err := r.Groups.TerminateInstance(r.ctx, id, true); err != nil {
			return false, fmt.Errorf("terminating instance %s: %w", id, err)
		}
	}
	if err := r.replace(d.Replace); err != nil {
		return false, err
	}
	if d.Desired == g.Desired-len(d.Terminate) {
		return true, nil
	}
	handler.Logger(r.Log).Info("setting the desired capacity", "cluster", r.of.Cluster, "provider", p.Name, "from", g.Desired, "to", d.Desired, "why", d.Why)
	err = r.Groups.SetDesired(r.ctx, g.Name, d.Desired)
	return err == nil, cluster.Wrap(err, "setting the desired capacity of group %s to %d", g.Name, d.Desired)
}

// unchanged reports whether the group's sizes, whether its nodes are being upgraded, and its instances but for those that have
// left, are what the decision rests on: a desired capacity is set as a number, and would undo what an update or the group's owner
// has made of it meanwhile.
func (r *scalingRound) unchanged(g *cluster.AutoScalingGroup) (bool, error) {
	was := r.busy[g.Name] != nil
	if err := r.upgrading(); err != nil {
		return false, err
	}
	got, err := r.Groups.DescribeGroups(r.ctx, []string{g.Name})
	if err != nil {
		return false, fmt.Errorf("describing Auto Scaling group %s again: %w", g.Name, err)
	}
	if len(got) == 1 && got[0].Desired == g.Desired && got[0].Min == g.Min && got[0].Max == g.Max && was == (r.busy[g.Name] != nil) {
		known := map[string]bool{}
		for _, i := range g.Instances {
			known[i.ID] = true
		}
		if !slices.ContainsFunc(got[0].Instances, func(i cluster.GroupInstance) bool { return !known[i.ID] }) {
			return true, nil
		}
	}
	handler.Logger(r.Log).Info("the group has changed meanwhile: its size is decided on anew", "cluster", r.of.Cluster, "group", g.Name)
	return false, nil
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

// note writes down of instances which group may take them, or that none may. Whoever then places a task there knows of it,
// and has the instance protected before the task is started (C6): decisions under way do not, so that they are void.
func (r *scalingRound) note(ids []string, group string) error {
	for batch := range slices.Chunk(ids, state.MaxWrites) {
		err := state.RetryRaces("noting which instances may be taken", func() error {
			return state.CommitNarrowingAll(r.ctx, r.State, r.of.Cluster, func(stamp int64) (writes []state.Write, err error) {
				for _, id := range batch {
					i, err := r.instance(id)
					if err != nil {
						return nil, err
					}
					if i == nil || i.Gone() || i.ReleasedIn == group {
						continue
					}
					next := *i
					next.Rev++
					next.Stamp, next.ReleasedIn = stamp, group
					writes = append(writes, state.Write{Put: &next})
				}
				return writes, nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// instance reads an instance's row; nil where there is none.
func (r *scalingRound) instance(id string) (*cluster.Instance, error) {
	row, err := r.State.Get(r.ctx, state.InstanceKey(r.of.Cluster, id))
	if err != nil {
		return nil, fmt.Errorf("reading instance %s: %w", id, err)
	}
	i, _ := row.(*cluster.Instance)
	return i, nil
}

// release lets the group take instances without tasks, of which that is noted. One for which dispatch has taken the note back
// meanwhile is protected again, as dispatch may have protected it just before; then nothing is taken away this time.
func (r *scalingRound) release(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, ids []string) (done bool, err error) {
	if len(ids) == 0 {
		return true, nil
	}
	if err := r.Groups.SetInstanceProtection(r.ctx, g.Name, ids, false); err != nil {
		return false, fmt.Errorf("releasing instances: %w", err)
	}
	if !p.Protection {
		return true, nil
	}
	registered := r.byEC2()
	var wanted []string
	for _, id := range ids {
		free, err := r.free(id, registered[id], g.Name)
		if err != nil {
			return false, err
		}
		if !free {
			wanted = append(wanted, id)
		}
	}
	if len(wanted) == 0 {
		return true, nil
	}
	handler.Logger(r.Log).Info("tasks have come to instances that were released", "cluster", r.of.Cluster, "instances", wanted)
	return false, cluster.Wrap(r.Groups.SetInstanceProtection(r.ctx, g.Name, wanted, true), "protecting instances again")
}

// free reports whether the note that the group may take the instance stands; of one that had not registered, that it has not.
func (r *scalingRound) free(ec2 string, v *snapshot.InstanceView, group string) (bool, error) {
	if v == nil {
		known, err := r.known(r.of.Cluster, ec2)
		return !known, err
	}
	i, err := r.instance(v.ID)
	return i == nil || i.ReleasedIn == group, err
}

// byEC2 are the container instances by EC2 id.
func (r *scalingRound) byEC2() map[string]*snapshot.InstanceView {
	out := map[string]*snapshot.InstanceView{}
	for _, v := range r.snap.Instances {
		if v.Instance == nil || v.Gone() {
			continue
		}
		if old := out[v.EC2InstanceID]; old == nil || v.Supersedes(old.Instance) {
			out[v.EC2InstanceID] = v
		}
	}
	return out
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
	ids := slices.Sorted(maps.Keys(unnamed))
	for _, id := range ids {
		if err := r.Hosts.PutAttribute(r.ctx, r.of.Cluster, id, cluster.AttributeProvider, p.Name); err != nil {
			return fmt.Errorf("marking instance %s: %w", id, err)
		}
	}
	return r.takeIn(ids)
}

// seeDrains takes in the instances that consolidation is emptying, or has take tasks again, as ECS has them: what was ordered may have
// been done though no answer said so, and no event. Who goes by the row would forget one that is DRAINING, for ever.
func (r *scalingRound) seeDrains(drains []cluster.Drain) error {
	var ids []string
	for _, d := range drains {
		if v := r.snap.Instances[d.Instance]; !d.Over && v != nil && v.Instance != nil && !v.Gone() {
			ids = append(ids, d.Instance)
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
		i, err := r.instance(id)
		if err != nil {
			return err
		}
		if i != nil {
			r.snap.Put(i)
		}
	}
	return nil
}

func (r *scalingRound) observe(ids []string) error {
	return r.observer().RefreshInstances(r.ctx, r.ECS, r.of.Cluster, ids)
}

func (r *scalingRound) observer() *observe.Observer {
	return &observe.Observer{State: r.State, Now: r.Clock.Now(), Settings: r.Settings, Log: handler.Logger(r.Log)}
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
// (C6). One that another of the provider's clusters has is that one's to see to.
func (r *scalingRound) drainTerminating(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, before, now map[string]time.Time) error {
	byEC2 := r.byEC2()
	unknown, theirs := map[string]bool{}, map[string]string{}
	for id := range now {
		if byEC2[id] == nil {
			unknown[id] = true
		}
	}
	if err := r.elsewhere(p.Clusters, slices.Sorted(maps.Keys(unknown)), theirs); err != nil {
		return err
	}
	var failed []error
	for _, id := range slices.Sorted(maps.Keys(now)) {
		v := byEC2[id]
		switch {
		case theirs[id] != "":
		case v == nil, r.lost(v), v.Status == cluster.InstanceDraining && len(v.Tasks) == 0:
			failed = append(failed, cluster.Wrap(r.complete(g.Name, id, v), "letting instance %s go", id))
		case v.Status != cluster.InstanceDraining:
			failed = append(failed, cluster.Wrap(r.ECS.DrainInstance(r.ctx, r.of.Cluster, v.ID), "draining instance %s", id))
		case !before[id].IsZero() && !before[id].Equal(now[id]):
			failed = append(failed, cluster.Wrap(done(r.Groups.RecordHeartbeat(r.ctx, g.Name, cluster.DrainingHook, id)), "having instance %s wait", id))
		}
	}
	return errors.Join(failed...)
}

// complete lets the termination of an instance go on; of one that drains (nil where it is gone), once ECS says as well that it has
// no task.
func (r *scalingRound) complete(group, id string, v *snapshot.InstanceView) error {
	if v != nil && !r.lost(v) {
		if busy, err := r.observer().RecordUnreportedTasks(r.ctx, r.ECS, r.of.Cluster, v.ID); err != nil || busy {
			return err
		}
	}
	return done(r.Groups.CompleteLifecycleAction(r.ctx, group, cluster.DrainingHook, id))
}

// done is the error of a call about a lifecycle action, none where the action is over: the instance may wait for a hook of
// somebody else's.
func done(err error) error {
	if e := (*cluster.Error)(nil); errors.As(err, &e) && strings.Contains(e.Message, "No active Lifecycle Action found") {
		return nil
	}
	return err
}

// lost reports whether the instance's agent has been away for so long that its tasks are given up (S11).
func (r *scalingRound) lost(v *snapshot.InstanceView) bool {
	return !v.AgentConnected && v.DisconnectedAt != 0 && r.Clock.Now().Sub(v.DisconnectedAt.Time()) >= r.Settings.LostAfter
}
