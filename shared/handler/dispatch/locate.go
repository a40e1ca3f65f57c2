package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"berth/shared/cluster"
	"berth/shared/state"
)

// locateTasks records the address at which each task will be registered, as ECS reports it. In the
// network mode awsvpc that is the task's own address. In bridge and host mode it is the instance
// with the host port that leads to the container's port. It returns the tasks whose rows still
// exist.
//
// An address is recorded before anything is registered: the function that deregisters the task
// later finds it there.
func locateTasks(ctx context.Context, r *round, wanted []*taskRegistration) ([]*taskRegistration, error) {
	var unlocated []*taskRegistration
	var out []*taskRegistration
	for _, reg := range wanted {
		if slices.ContainsFunc(reg.target.Registrations, reg.needsAddress) {
			unlocated = append(unlocated, reg)
		} else {
			out = append(out, reg)
		}
	}
	for batch := range slices.Chunk(unlocated, cluster.DescribeBatch) {
		tasks, err := describeTasks(ctx, r, batch)
		if err != nil {
			r.retryIn(retryDelay(err))
			return nil, err
		}
		for _, reg := range batch {
			e, found := tasks[reg.task.ECSID]
			if !found {
				continue // ECS no longer has the task; its event is on the way
			}
			exists, err := recordLocation(ctx, r, reg, e)
			if err != nil {
				return nil, err
			}
			if exists {
				out = append(out, reg)
			}
		}
	}
	return out, nil
}

// describeTasks asks ECS about tasks and returns them by ECS task id.
func describeTasks(ctx context.Context, r *round, batch []*taskRegistration) (map[string]cluster.ECSTask, error) {
	ids := make([]string, len(batch))
	for i, reg := range batch {
		ids[i] = reg.task.ECSID
	}
	got, err := r.ECS.DescribeTasks(ctx, r.cluster, ids)
	if err != nil {
		return nil, fmt.Errorf("describing tasks to register: %w", err)
	}
	tasks := make(map[string]cluster.ECSTask, len(got))
	for _, e := range got {
		tasks[e.ID] = e
	}
	return tasks, nil
}

// recordLocation records a task's addresses, or why it cannot have one. exists is false if its row
// was deleted meanwhile.
func recordLocation(ctx context.Context, r *round, reg *taskRegistration, e cluster.ECSTask) (exists bool, err error) {
	host := e.Address
	if host == "" {
		if host, err = ec2InstanceID(ctx, r, reg.task.Instance); err != nil {
			reg.left = true
			return false, err
		}
	}
	now, err := UpdateTarget(ctx, r.State, r.Clock, reg.target, func(t *cluster.Target) bool {
		changed := false
		for n := range t.Registrations {
			g := &t.Registrations[n]
			if !reg.needsAddress(*g) {
				continue
			}
			port, why := hostPort(*g, e)
			if why == "" && host == "" {
				why = "instance " + reg.task.Instance + " is no EC2 instance"
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
		reg.left = err != nil
		return false, err
	}
	reg.target = now
	return true, nil
}

// ec2InstanceID returns the EC2 id of a container instance, empty for an external instance. If the
// cheap, possibly stale read finds none, it reads again consistently.
func ec2InstanceID(ctx context.Context, r *round, id string) (string, error) {
	for _, read := range []func(context.Context, state.Key) (state.Row, error){r.State.Peek, r.State.Get} {
		row, err := read(ctx, state.InstanceKey(r.cluster, id))
		if err != nil {
			return "", fmt.Errorf("reading instance %s: %w", id, err)
		}
		if i, ok := row.(*cluster.Instance); ok && i != nil && i.EC2InstanceID != "" {
			return i.EC2InstanceID, nil
		}
	}
	return "", nil
}

// hostPort returns the port on the address that leads to the registration's container port, or why
// there is none.
func hostPort(g cluster.Registration, e cluster.ECSTask) (port int, why string) {
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
