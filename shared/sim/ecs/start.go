package ecs

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/shape"
)

// startRequest is the input of StartTask.
type startRequest struct {
	cluster, definition, startedBy, group string
	instances                             []string // ids or ARNs
	overrides                             types.TaskOverride
	tags                                  []types.Tag
	definitionTags                        bool // propagateTags TASK_DEFINITION
	managedTags                           bool // enableECSManagedTags
	executeCommand                        bool // enableExecuteCommand
	network                               *types.NetworkConfiguration
	volumes                               []types.TaskVolumeConfiguration
}

// startedByPattern is ECS's rule for startedBy (ECS API, StartTask). Berth's own, such as
// berth/3f9ab2c61d07/2r-0, must fit.
var startedByPattern = regexp.MustCompile(`^[a-zA-Z0-9/_-]{0,36}$`)

// startTasks starts one task on each instance, in order. It returns a failure for each instance
// that cannot take one. The error concerns the whole call, which then changes nothing.
func (e *agents) startTasks(r startRequest, now time.Time) ([]*task, []types.Failure, error) {
	c, d, err := e.checkStart(&r)
	if err != nil {
		return nil, nil, err
	}
	var started []*task
	var failures []types.Failure
	cpu, memory, gpus := d.requiredResources(&r.overrides)
	for _, id := range r.instances {
		i := e.findInstance(c, id)
		need := taskSpec{CPU: cpu, Memory: memory, Ports: d.staticHostPorts(), ENI: r.network != nil}
		if reason := startFailureReason(i, d, &need, gpus); reason != "" {
			arn := e.instanceARN(c, id)
			failures = append(failures, types.Failure{Arn: &arn, Reason: &reason})
			continue
		}
		started = append(started, e.createTask(i, d, &r, need, now))
	}
	return started, failures, nil
}

// checkStart checks what makes ECS refuse the whole call, and completes the sizes of the overrides.
func (e *agents) checkStart(r *startRequest) (*ecsCluster, *definition, error) {
	c, err := e.findCluster(r.cluster)
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	for _, id := range r.instances {
		id = cluster.LastPart(id)
		if seen[id] {
			return nil, nil, invalidParameter("Container instance %.64s is named twice.", id)
		}
		seen[id] = true
	}
	switch {
	case len(r.instances) == 0:
		return nil, nil, invalidParameter("Container Instances cannot be empty.")
	case len(r.instances) > cluster.MaxStart:
		return nil, nil, invalidParameter("Container Instances cannot have more than %d items.", cluster.MaxStart)
	case !startedByPattern.MatchString(r.startedBy):
		return nil, nil,
			invalidParameter("startedBy must have at most 36 letters, digits, hyphens, underscores and slashes.")
	case strings.HasPrefix(r.group, "service:"):
		return nil, nil, invalidParameter("The group prefix service: is reserved.")
	case len(r.group) > 255:
		return nil, nil, invalidParameter("The group has more than 255 characters.")
	}
	if err := checkTags(r.tags, nil); err != nil {
		return nil, nil, err
	}
	d := e.findDefinition(r.definition)
	if d == nil || d.Def.Status == types.TaskDefinitionStatusDeleteInProgress {
		return nil, nil, cluster.Errorf(cluster.CodeClient, "TaskDefinition not found.")
	}
	if !d.isActive() {
		return nil, nil, cluster.Errorf(cluster.CodeClient, "TaskDefinition is inactive")
	}
	if (d.Def.NetworkMode == types.NetworkModeAwsvpc) != (r.network != nil) {
		return nil, nil,
			invalidParameter("A network configuration is for task definitions in awsvpc mode, and they need one.")
	}
	if _, err := shape.ParseNetwork(r.network); err != nil {
		return nil, nil, err
	}
	if err := checkVolumes(d, r.volumes); err != nil {
		return nil, nil, err
	}
	return c, d, checkOverrides(d, &r.overrides)
}

// checkOverrides refuses overrides of containers that the definition does not have. It rewrites the
// task's own sizes into units.
func checkOverrides(d *definition, o *types.TaskOverride) (err error) {
	for _, c := range o.ContainerOverrides {
		named := func(own types.ContainerDefinition) bool { return value(own.Name) == value(c.Name) }
		if !slices.ContainsFunc(d.Def.ContainerDefinitions, named) {
			return invalidParameter("Override for container named %.255s is not a container in the TaskDefinition.",
				value(c.Name))
		}
		if value(c.Cpu) < 0 || value(c.Memory) < 0 || value(c.MemoryReservation) < 0 {
			return invalidParameter("Negative override for container %s.", *c.Name)
		}
	}
	if o.Cpu, err = taskCPU(value(o.Cpu), cluster.CodeInvalidParameter); err != nil {
		return err
	}
	o.Memory, err = taskMemory(value(o.Memory), cluster.CodeInvalidParameter)
	return err
}

// startFailureReason returns why the instance cannot take the task, in the words of ECS's failures
// (API failure reasons), which the scheduler tells apart. If it can, the reason is "" and need has
// the GPUs that the task gets. The first reason found is the only one: an instance that lacks CPU
// and memory fails for its CPU.
func startFailureReason(i *instance, d *definition, need *taskSpec, gpus int) string {
	switch {
	case i == nil:
		return "MISSING"
	case i.Status != cluster.InstanceActive:
		return "INACTIVE"
	case !i.Connected:
		return "AGENT"
	}
	for _, a := range d.Def.RequiresAttributes {
		if !i.hasAttribute(*a.Name, value(a.Value)) {
			return "ATTRIBUTE"
		}
	}
	if need.CPU > i.freeCPU {
		return "RESOURCE:CPU"
	}
	if need.Memory > i.freeMemory {
		return "RESOURCE:MEMORY"
	}
	for _, p := range need.Ports {
		if i.ports[p] {
			return "RESOURCE:PORTS"
		}
	}
	if need.ENI && i.ENIs != nil && i.countInterfaces() >= *i.ENIs {
		return "RESOURCE:ENI"
	}
	if gpus > 0 {
		free := i.freeGPUs()
		if len(free) < gpus {
			return "RESOURCE:GPU"
		}
		need.GPUs = free[:gpus]
	}
	return ""
}

// createTask creates the task, PENDING, and lets its agent start it. The instance's event follows
// the task's, because less is free there now.
func (e *agents) createTask(i *instance, d *definition, r *startRequest, need taskSpec, now time.Time) *task {
	n := e.kernel.NextNumber("Tasks")
	t := &task{taskSpec: need}
	t.Seq, t.ID = n, e.kernel.ResourceID("task", n)
	t.Cluster, t.Instance, t.Definition = i.Cluster, i.ID, d.name()
	t.StartedBy, t.Group, t.Overrides, t.Tags = r.startedBy, r.group, r.overrides, r.tags
	t.ExecuteCommand = r.executeCommand
	if r.definitionTags {
		t.Tags = mergeTags(d.Tags, r.tags)
	}
	if r.managedTags {
		t.Tags = mergeTags(t.Tags, []types.Tag{{Key: new(cluster.TagClusterName), Value: new(i.Cluster)}})
	}
	// Which subnets are in the instance's zone is not known here: its tasks take them in turn.
	if c := r.network; c != nil && c.AwsvpcConfiguration != nil && len(c.AwsvpcConfiguration.Subnets) > 0 {
		subnets := c.AwsvpcConfiguration.Subnets
		t.Subnet = subnets[t.Seq%int64(len(subnets))]
	}
	t.Volumes = r.volumes
	if t.Group == "" {
		t.Group = "family:" + *d.Def.Family
	}
	t.Last, t.Desired, t.Version, t.Created = cluster.TaskPending, cluster.TaskRunning, 1, now
	e.addTask(t, i, d)
	t.Plan = e.planBehaviour(t)
	i.reserveFor(t, 1)
	e.kernel.SaveRow(t)
	e.emitTask(t, now)
	e.instanceChanged(i, now)
	e.armTaskTimer(t, now)
	return t
}

// stopTask sets the desired status STOPPED. The agent learns it at once, or when it is connected
// again. The first reason stands: stopping a task twice changes nothing.
func (e *agents) stopTask(c *ecsCluster, idOrARN, reason string, now time.Time) (*task, error) {
	t := e.tasks[cluster.LastPart(idOrARN)]
	if t == nil || t.on.in != c {
		return nil, invalidParameter("The referenced task was not found.")
	}
	if t.Desired == cluster.TaskStopped {
		return t, nil
	}
	if reason == "" {
		reason = "Task stopped by user"
	}
	t.Desired, t.Stopping, t.StopCode, t.Reason = cluster.TaskStopped, now, cluster.StopUserInitiated, reason
	t.Version++
	e.kernel.SaveRow(t)
	e.emitTask(t, now)
	if t.on.Connected {
		e.receiveStop(t, now)
	}
	return t, nil
}

// receiveStop is what the agent does when it learns that it should stop a task. It may learn it
// twice, by the call and after a reconnect.
func (e *agents) receiveStop(t *task, now time.Time) {
	if t.Phase == phaseGone || !t.StopAt.IsZero() {
		return
	}
	t.StopAt, t.Killed = now.Add(t.Plan.StopLatency), t.Plan.IgnoreStop
	e.kernel.SaveRow(t)
	e.armTaskTimer(t, now)
}
