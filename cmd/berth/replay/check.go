package replay

import (
	"context"
	"fmt"
	"strings"

	"berth/cmd/berth/installation"
	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/state"
)

// room is what an instance has left. It is computed from the rows and shares no code with
// placement, so that a fault there cannot hide itself.
type room struct {
	instance, model string
	cpu, memory     int64
	gpus            []int // thousandths of each GPU
}

// demand is what a task waits for: resources, and GPUs of one of the models that the constraint
// names in quotes. An empty constraint allows any model.
type demand struct {
	cluster.Resources
	constraint string
}

// CheckWaitingTasks is an [Options.Check]. It fails if an instance has room for a task that waits.
func CheckWaitingTasks(i *installation.Installation) error {
	ctx := context.Background()
	instances, err := i.Store.List(ctx, state.Prefix(clusterName, state.PrefixInstance))
	if err != nil {
		return err
	}
	var rooms []*room
	byInstance := map[string]*room{}
	for _, row := range instances {
		if in, ok := row.(*cluster.Instance); ok && in.IsAvailable() {
			r := emptyRoom(in)
			rooms, byInstance[in.ID] = append(rooms, r), r
		}
	}
	tasks, err := i.Store.List(ctx, state.Prefix(clusterName, state.PrefixTask))
	if err != nil {
		return err
	}
	waiting := map[demand]string{}
	for _, row := range tasks {
		t, ok := row.(*cluster.Task)
		if !ok {
			continue
		}
		if r := byInstance[t.Instance]; r != nil && t.HoldsCapacity() {
			r.takeTask(t)
		}
		if t.IsProvisioning() {
			waiting[demandOfTask(t)] = t.StartedByUser
		}
	}
	for d, task := range waiting {
		for _, r := range rooms {
			if r.canHoldDemand(d) {
				return fmt.Errorf("at %s task %s (%+v) waits, and instance %s could hold it", i.Loop.Now(), task, d,
					r.instance)
			}
		}
	}
	return nil
}

// demandOfTask returns what a task waits for. Replayed tasks have at most one constraint, on the
// GPU model.
func demandOfTask(t *cluster.Task) demand {
	d := demand{Resources: t.Needs}
	if t.Rules != nil && len(t.Rules.Constraints) > 0 {
		d.constraint = t.Rules.Constraints[0].Expression
	}
	return d
}

// emptyRoom returns what an instance has without tasks.
func emptyRoom(in *cluster.Instance) *room {
	r := &room{instance: in.ID, model: in.Attributes[trace.ModelAttribute], cpu: in.Registered.CPU,
		memory: in.Registered.Memory, gpus: make([]int, len(in.Registered.GPUs))}
	for g := range r.gpus {
		r.gpus[g] = 1000
	}
	return r
}

// takeTask takes what a task holds away from its instance.
func (r *room) takeTask(t *cluster.Task) {
	r.cpu -= t.Needs.CPU
	r.memory -= t.Needs.Memory
	for _, g := range t.GPUs {
		r.gpus[g] -= perGPU(t.Needs)
	}
}

// perGPU is what a task takes of each of its GPUs, in thousandths.
func perGPU(needs cluster.Resources) int {
	if needs.GPUMilli == 0 {
		return 1000
	}
	return int(needs.GPUMilli)
}

// canHoldDemand reports whether the instance could run a task with this demand. Each GPU must have
// enough left by itself.
func (r *room) canHoldDemand(d demand) bool {
	if d.constraint != "" && !strings.Contains(d.constraint, "'"+r.model+"'") {
		return false
	}
	free := 0
	for _, g := range r.gpus {
		if g >= perGPU(d.Resources) {
			free++
		}
	}
	return r.cpu >= d.CPU && r.memory >= d.Memory && free >= d.GPUs
}
