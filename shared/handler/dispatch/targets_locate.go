package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"berth/shared/cluster"
	"berth/shared/state"
)

// locate writes down where tasks are to be registered, as ECS says: on the instance's port that leads to the container's
// in the network modes bridge and host, at the task's own address in awsvpc. It returns those whose rows are still there.
func (d *drainer) locate(wanted []*registering) ([]*registering, error) {
	var missing []*registering
	var out []*registering
	for _, r := range wanted {
		if slices.ContainsFunc(r.target.Registrations, r.unlocated) {
			missing = append(missing, r)
		} else {
			out = append(out, r)
		}
	}
	for batch := range slices.Chunk(missing, cluster.DescribeBatch) {
		tasks, err := d.describe(batch)
		if err != nil {
			d.again(patience(err))
			return nil, err
		}
		for _, r := range batch {
			e, found := tasks[r.task.ECSID]
			if !found {
				continue // ECS has no such task any more, and will say so
			}
			there, err := d.locateOne(r, e)
			if err != nil {
				return nil, err
			}
			if there {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

func (r *registering) unlocated(g cluster.Registration) bool { return r.wants(g) && g.Address == "" }

// describe asks ECS about tasks.
func (d *drainer) describe(batch []*registering) (map[string]cluster.ECSTask, error) {
	ids := make([]string, len(batch))
	for i, r := range batch {
		ids[i] = r.task.ECSID
	}
	got, err := d.ECS.DescribeTasks(d.ctx, d.cluster, ids)
	if err != nil {
		return nil, fmt.Errorf("describing tasks to register: %w", err)
	}
	tasks := make(map[string]cluster.ECSTask, len(got))
	for _, e := range got {
		tasks[e.ID] = e
	}
	return tasks, nil
}

func (d *drainer) locateOne(r *registering, e cluster.ECSTask) (there bool, err error) {
	host := e.Address
	if host == "" {
		if host, err = d.ec2Instance(r.task.Instance); err != nil {
			r.left = true
			return false, err
		}
	}
	now, err := ChangeTarget(d.ctx, d.State, r.target, func(t *cluster.Target) bool {
		changed := false
		for n := range t.Registrations {
			g := &t.Registrations[n]
			if !r.unlocated(*g) {
				continue
			}
			port, why := portOf(*g, e)
			if why == "" && host == "" {
				why = "instance " + r.task.Instance + " is no EC2 instance"
			}
			switch {
			case why == "":
				g.Address, g.Port, changed = host, port, true
			case g.State == "" || g.Reason != why:
				g.State, g.Reason, changed = cluster.RegistrationFailed, why, true
			}
		}
		return changed
	})
	if err != nil || now == nil {
		r.left = err != nil
		return false, err
	}
	r.target = now
	return true, nil
}

// ec2Instance is a container instance's id at EC2; empty where it is none of EC2's, which a cheap read alone does not say.
func (d *drainer) ec2Instance(id string) (string, error) {
	for _, read := range []func(context.Context, state.Key) (state.Row, error){d.State.Peek, d.State.Get} {
		row, err := read(d.ctx, state.InstanceKey(d.cluster, id))
		if err != nil {
			return "", fmt.Errorf("reading instance %s: %w", id, err)
		}
		if i, ok := row.(*cluster.Instance); ok && i != nil && i.EC2InstanceID != "" {
			return i.EC2InstanceID, nil
		}
	}
	return "", nil
}

// portOf is the port that leads to the registration's, or why there is none.
func portOf(g cluster.Registration, e cluster.ECSTask) (port int, why string) {
	if e.Address != "" {
		return cmp.Or(g.ContainerPort, g.Port), ""
	}
	if g.Registry {
		return 0, "Cloud Map takes tasks with a network interface of their own only (network mode awsvpc)"
	}
	udp := 0
	for _, b := range e.Bindings {
		switch {
		case b.Container != g.Container || b.ContainerPort != g.ContainerPort:
		case b.Protocol == cluster.UDP:
			udp = b.HostPort
		default:
			return b.HostPort, ""
		}
	}
	if udp != 0 {
		return udp, ""
	}
	return 0, fmt.Sprintf("port %d of container %s is bound to no port of the instance", g.ContainerPort, g.Container)
}
