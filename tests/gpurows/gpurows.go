// Package gpurows has rows of clusters with GPUs, for the tests of placement and of its packing
// score.
//
// It depends on the model alone, so that tests inside the packages under test can use it.
package gpurows

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Models are the GPU models of generated clusters.
var Models = []string{"A10", "T4", "V100"}

// Instance returns an instance with so many vCPU, 4 GiB for each, and GPUs of a model.
func Instance(id string, vcpu int64, gpus int, model string) *cluster.Instance {
	return &cluster.Instance{
		Head: cluster.Head{Cluster: "c", Rev: 1}, ID: id, Status: cluster.InstanceActive, AgentConnected: true,
		Registered: cluster.Capacity{CPU: vcpu * cluster.VCPU, Memory: vcpu * 4096, GPUs: make([]string, gpus)},
		Attributes: map[string]string{"gpu-model": model},
	}
}

// CPUNeeds returns so many vCPU and 4 GiB for each.
func CPUNeeds(vcpu int64) cluster.Resources {
	return cluster.Resources{CPU: vcpu * cluster.VCPU, Memory: vcpu * 4096}
}

// Needs returns so many vCPU, 4 GiB for each, and thousandths of GPUs: a part of one, or whole
// ones.
func Needs(vcpu int64, milli int) cluster.Resources {
	r := CPUNeeds(vcpu)
	if r.GPUs = (milli + 999) / 1000; milli < 1000 {
		r.GPUMilli = int32(milli)
	}
	return r
}

// GenNeeds draws needs of a GPU task.
func GenNeeds(t *rapid.T) cluster.Resources {
	milli := rapid.SampledFrom([]int{50, 190, 460, 810, 1000, 1000, 2000, 4000}).Draw(t, "milli")
	return Needs(int64(rapid.IntRange(1, 24).Draw(t, "vcpu")), milli)
}

// Task returns a task on an instance, or one that waits if on is empty.
func Task(id, on string, needs cluster.Resources, devices ...int) *cluster.Task {
	return &cluster.Task{
		Head:           cluster.Head{Cluster: "c", Rev: 1},
		TaskSpec:       cluster.TaskSpec{ID: id, Owner: "o", TaskDefinition: "any:1", Needs: needs},
		TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning, Instance: on, GPUs: devices},
	}
}

// OnModels restricts the task to GPU models, "A10,T4".
func OnModels(models string, t *cluster.Task) *cluster.Task {
	t.Rules = &cluster.Rules{Constraints: []cluster.PlacementConstraint{
		{Type: cluster.MemberOf, Expression: "attribute:gpu-model in [" + models + "]"},
	}}
	return t
}

// AddWaiting adds waiting tasks with these needs.
func AddWaiting(s *snapshot.Snapshot, needs ...cluster.Resources) *snapshot.Snapshot {
	for i, n := range needs {
		s.Put(Task(fmt.Sprintf("waits-%d", i), "", n))
	}
	return s
}

// GenCluster draws a cluster with some tasks on it, and some that wait.
func GenCluster(t *rapid.T) []state.Row {
	var rows []state.Row
	for i := range rapid.IntRange(1, 8).Draw(t, "instances") {
		id := fmt.Sprintf("i-%d", i)
		gpus := rapid.IntRange(0, 4).Draw(t, "gpus")
		rows = append(rows, Instance(id, int64(rapid.IntRange(4, 64).Draw(t, "vcpu")), gpus,
			rapid.SampledFrom(Models).Draw(t, "model")))
		if gpus > 0 {
			rows = append(rows, Task("on-"+id, id, Needs(1, 10*rapid.IntRange(1, 99).Draw(t, "part")), 0))
		}
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "waiting") {
		task := Task(fmt.Sprintf("waits-%d", i), "", GenNeeds(t))
		if rapid.Bool().Draw(t, "constrained") {
			task = OnModels(rapid.SampledFrom(Models).Draw(t, "model"), task)
		}
		rows = append(rows, task)
	}
	return rows
}

// HasRoom reports whether a task with these needs fits on the instance.
func HasRoom(v *snapshot.InstanceView, needs cluster.Resources) bool {
	return v.CPU >= needs.CPU && v.Memory >= needs.Memory &&
		(needs.GPUs == 0 || Devices(v.GPUs, v.Unpinned, needs) != nil)
}

// Devices returns the positions of the devices that one task gets, or nil if there are not enough:
// those with the least free that is enough. free has the thousandths per device. Of the entirely
// free devices, the last unpinned ones are left alone, because tasks hold as many at unknown
// positions.
func Devices(free []int, unpinned int, needs cluster.Resources) []int {
	var partial, whole []int
	for d, milli := range free {
		if milli == cluster.WholeGPU {
			whole = append(whole, d)
		} else if milli >= needs.PerGPU() {
			partial = append(partial, d)
		}
	}
	slices.SortStableFunc(partial, func(a, b int) int { return free[a] - free[b] })
	order := append(partial, whole[:max(0, len(whole)-unpinned)]...)
	if len(order) < needs.GPUs {
		return nil
	}
	order = order[:needs.GPUs]
	slices.Sort(order)
	return order
}
