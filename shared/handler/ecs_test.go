package handler_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
)

var account = cluster.Account{ID: "123456789012", Region: "eu-central-1"}

// A fault is what goes wrong with one StartTask.
type fault struct {
	err     error             // answered instead of the tasks
	applied bool              // the tasks start all the same
	late    time.Duration     // and only after this long
	refuse  map[string]string // reasons by instance
}

var (
	throttled   = cluster.Errorf(cluster.CodeThrottling, "Rate exceeded")
	errTimedOut = fmt.Errorf("reading the answer: %w", cluster.ErrAmbiguous)
	denied      = cluster.Errorf(cluster.CodeClient, "TaskDefinition is inactive")
)

// fakeECS behaves like ECS with instances of one agent each: what is started runs, what is stopped
// ends, and each change is an event. It refuses what ECS refuses.
type fakeECS struct {
	clock       *manualClock
	clusters    map[string]bool
	definitions map[string]*cluster.TaskDefinition
	instances   map[string]*cluster.Instance
	tasks       map[string]*cluster.ECSTask
	order       []string // of the tasks, oldest first

	events [][]byte // not delivered yet
	mute   bool     // events are lost
	turned []string // tasks whose health has changed
	frozen bool     // agents do nothing

	onStart func(n int, c cluster.StartCall) fault // n counts from 1
	onStop  func(n int, id string) error
	onList  func() error

	onDescribe   func(name string)       // after a revision was found
	onDeregister func(name string) error // before it has an effect
	onDelete     func(name string) error
	deregistered []string // by calls of DeregisterTaskDefinition
	deleted      []string // by calls of DeleteTaskDefinition

	delayed  []delayedStart
	starts   []cluster.StartCall
	stops    []string
	describe int // calls of DescribeInstances

	describedTasks  []int        // in each call of DescribeTasks
	onDescribeTasks func() error // before it answers
}

type delayedStart struct {
	at   time.Time
	call cluster.StartCall
}

func newFakeECS(clock *manualClock) *fakeECS {
	return &fakeECS{
		clock: clock, clusters: map[string]bool{}, definitions: map[string]*cluster.TaskDefinition{},
		instances: map[string]*cluster.Instance{}, tasks: map[string]*cluster.ECSTask{},
	}
}

// define registers a revision, which the family's name then stands for.
func (e *fakeECS) define(d *cluster.TaskDefinition) {
	e.definitions[d.Name()], e.definitions[d.Family] = d, d
}

// register adds an ACTIVE instance and emits its event.
func (e *fakeECS) register(i *cluster.Instance) {
	i.Status, i.AgentConnected, i.Version, i.RegisteredAt = cluster.InstanceActive, true, 1, cluster.At(e.clock.Now())
	e.instances[i.ID] = i
	e.tell(instanceEvent(i))
}

// change changes an instance and emits its event.
func (e *fakeECS) change(id string, f func(i *cluster.Instance)) {
	i := e.instances[id]
	f(i)
	i.Version++
	e.tell(instanceEvent(i))
	if i.Status == cluster.InstanceInactive {
		delete(e.instances, id)
	}
}

func (e *fakeECS) tell(event []byte) {
	if !e.mute {
		e.events = append(e.events, event)
	}
}

// report changes a task and emits its event.
func (e *fakeECS) report(id string, f func(t *cluster.ECSTask)) {
	t := e.tasks[id]
	f(t)
	t.Version++
	if t.Last == cluster.TaskStopped {
		t.Health = cluster.UnknownHealth
		if t.Stopped.IsZero() {
			t.Stopped = e.clock.Now()
		}
	}
	e.tell(taskEvent(*t))
}

// turn changes the health of a task. No event says so.
func (e *fakeECS) turn(id string, health cluster.Health) {
	e.tasks[id].Health = health
	e.turned = append(e.turned, id)
}

// exit ends a task by itself.
func (e *fakeECS) exit(id string, code int) {
	e.report(id, func(t *cluster.ECSTask) {
		t.Last, t.Desired, t.ExitCode = cluster.TaskStopped, cluster.TaskStopped, &code
		t.StopCode, t.Reason = cluster.StopContainerExited, "Essential container in task exited"
	})
}

// beginExit reports that the containers of a task have ended, which ECS does some seconds before the task has
// stopped.
func (e *fakeECS) beginExit(id string) {
	e.report(id, func(t *cluster.ECSTask) {
		t.Desired, t.StopCode, t.Reason = cluster.TaskStopped, cluster.StopContainerExited,
			"Essential container in task exited"
	})
}

// step lets every agent do the next thing with each of its tasks.
func (e *fakeECS) step() {
	for _, d := range e.delayed {
		if !d.at.After(e.clock.Now()) {
			e.begin(d.call, nil)
		}
	}
	e.delayed = slices.DeleteFunc(e.delayed, func(d delayedStart) bool { return !d.at.After(e.clock.Now()) })
	for _, id := range e.order {
		if t := e.tasks[id]; t != nil && !e.frozen {
			e.stepTask(t)
		}
	}
}

func (e *fakeECS) stepTask(t *cluster.ECSTask) {
	switch {
	case t.Last == cluster.TaskStopped:
	case t.Desired == cluster.TaskStopped:
		e.report(t.ID, func(t *cluster.ECSTask) { t.Last = cluster.TaskStopped })
	case t.Last == cluster.TaskPending:
		if t.Needs.ENIs > 0 { // an address of its own
			t.Address = fmt.Sprintf("10.0.0.%d", slices.Index(e.order, t.ID)+1)
		}
		e.report(t.ID, func(t *cluster.ECSTask) { t.Last, t.Started = cluster.TaskRunning, e.clock.Now() })
	}
}

// live returns the ids of the tasks that have not stopped, oldest first.
func (e *fakeECS) live() []string {
	return slices.DeleteFunc(slices.Clone(e.order), func(id string) bool {
		return e.tasks[id] == nil || e.tasks[id].Last == cluster.TaskStopped
	})
}

func (e *fakeECS) StartTask(_ context.Context, c cluster.StartCall) (cluster.StartAnswer, error) {
	e.starts = append(e.starts, c)
	if err := e.check(c); err != nil {
		return cluster.StartAnswer{}, err
	}
	f := fault{}
	if e.onStart != nil {
		f = e.onStart(len(e.starts), c)
	}
	switch {
	case f.err != nil && f.late > 0:
		e.delayed = append(e.delayed, delayedStart{e.clock.Now().Add(f.late), c})
	case f.err == nil || f.applied:
		answer := e.begin(c, f.refuse)
		return answer, f.err
	}
	return cluster.StartAnswer{}, f.err
}

// check refuses the calls that ECS refuses as a whole.
func (e *fakeECS) check(c cluster.StartCall) error {
	if !e.clusters[c.Cluster] {
		return cluster.Errorf(cluster.CodeClusterNotFound, "Cluster not found.")
	}
	if n := len(c.Instances); n == 0 || n > cluster.MaxStart || len(c.StartedBy) > 36 {
		return cluster.Errorf(cluster.CodeInvalidParameter, "%d instances, startedBy %q", n, c.StartedBy)
	}
	if !distinct(c.Instances) {
		return cluster.Errorf(cluster.CodeInvalidParameter, "An instance is named twice: %v", c.Instances)
	}
	switch d := e.definitions[c.TaskDefinition]; {
	case d == nil:
		return cluster.Errorf(cluster.CodeClient, "TaskDefinition not found.")
	case d.Inactive:
		return cluster.Errorf(cluster.CodeClient, "TaskDefinition is inactive")
	}
	return nil
}

func distinct(ids []string) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(ids)))) == len(ids)
}

func (e *fakeECS) begin(c cluster.StartCall, refuse map[string]string) cluster.StartAnswer {
	var answer cluster.StartAnswer
	for _, id := range c.Instances {
		reason := cmp.Or(refuse[id], e.refusal(id, e.definitions[c.TaskDefinition]))
		if reason != "" {
			arn := account.ARN("container-instance", c.Cluster, id)
			answer.Failures = append(answer.Failures, cluster.Failure{ARN: arn, Reason: reason})
			continue
		}
		d := e.definitions[c.TaskDefinition]
		answer.Tasks = append(answer.Tasks, e.add(cluster.ECSTask{
			Cluster: c.Cluster, Instance: id, StartedBy: c.StartedBy, TaskDefinition: d.Name(), Group: "family:" + d.Family,
			Needs: d.Needs, Ports: d.Ports,
		}))
	}
	return answer
}

// add creates a task that is about to start.
func (e *fakeECS) add(t cluster.ECSTask) cluster.ECSTask {
	t.ID = fmt.Sprintf("%032x", 0xec5<<40|len(e.order)+1)
	t.Last, t.Desired, t.Version = cluster.TaskPending, cluster.TaskRunning, 1
	e.tasks[t.ID] = &t
	e.order = append(e.order, t.ID)
	if _, ours := cluster.ParseStartedBy(t.StartedBy); !ours { // the rule lets no PENDING of Berth's own pass
		e.tell(taskEvent(t))
	}
	return t
}

func (e *fakeECS) refusal(instance string, d *cluster.TaskDefinition) string {
	i := e.instances[instance]
	switch {
	case i == nil:
		return "MISSING"
	case i.Status != cluster.InstanceActive:
		return "INACTIVE"
	case !i.AgentConnected:
		return "AGENT"
	}
	cpu, memory := i.Registered.CPU, i.Registered.Memory
	for _, t := range e.tasks {
		if t.Instance == instance && t.Last != cluster.TaskStopped {
			cpu, memory = cpu-t.Needs.CPU, memory-t.Needs.Memory
		}
	}
	switch {
	case d.Needs.CPU > cpu:
		return "RESOURCE:CPU"
	case d.Needs.Memory > memory:
		return "RESOURCE:MEMORY"
	}
	return ""
}

func (e *fakeECS) StopTask(_ context.Context, clusterName, id, _ string) error {
	e.stops = append(e.stops, id)
	if e.onStop != nil {
		if err := e.onStop(len(e.stops), id); err != nil {
			return err
		}
	}
	t := e.tasks[id]
	if t == nil || t.Cluster != clusterName {
		return cluster.Errorf(cluster.CodeInvalidParameter, "The referenced task was not found.")
	}
	if t.Desired != cluster.TaskStopped {
		t.Desired, t.StopCode, t.Version = cluster.TaskStopped, cluster.StopUserInitiated, t.Version+1
	}
	return nil
}

func (e *fakeECS) ListTasks(_ context.Context, f cluster.TaskFilter) ([]string, error) {
	if e.onList != nil {
		if err := e.onList(); err != nil {
			return nil, err
		}
	}
	if f.StartedBy != "" && (f.Instance != "" || f.Desired != "") {
		return nil, cluster.Errorf(cluster.CodeInvalidParameter, "startedBy must be the only filter")
	}
	var ids []string
	for _, id := range e.order {
		t := e.tasks[id]
		if t == nil || t.Cluster != f.Cluster || f.StartedBy != "" && t.StartedBy != f.StartedBy ||
			f.Instance != "" && t.Instance != f.Instance || t.Desired != cmp.Or(f.Desired, cluster.TaskRunning) {
			continue
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (e *fakeECS) DescribeTasks(_ context.Context, clusterName string, ids []string) ([]cluster.ECSTask, error) {
	if len(ids) == 0 || len(ids) > 100 {
		return nil, cluster.Errorf(cluster.CodeInvalidParameter, "%d tasks", len(ids))
	}
	e.describedTasks = append(e.describedTasks, len(ids))
	if e.onDescribeTasks != nil {
		if err := e.onDescribeTasks(); err != nil {
			return nil, err
		}
	}
	var out []cluster.ECSTask
	for _, id := range ids {
		if t := e.tasks[id]; t != nil && t.Cluster == clusterName {
			out = append(out, *t)
		}
	}
	return out, nil
}

func (e *fakeECS) ListInstances(_ context.Context, clusterName string) ([]string, error) {
	if _, known := e.clusters[clusterName]; !known {
		return nil, cluster.Errorf(cluster.CodeClusterNotFound, "Cluster not found.")
	}
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(e.instances)) {
		if e.instances[id].Cluster == clusterName {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (e *fakeECS) DrainInstance(_ context.Context, clusterName, id string) error {
	i := e.instances[id]
	if i == nil || i.Cluster != clusterName {
		return cluster.Errorf(cluster.CodeInvalidParameter, "instance %s", id)
	}
	if i.Status == cluster.InstanceActive {
		e.change(id, func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
	}
	return nil
}

func (e *fakeECS) DescribeInstances(_ context.Context, clusterName string, ids []string) ([]*cluster.Instance, error) {
	e.describe++
	if len(ids) == 0 || len(ids) > 100 || !distinct(ids) {
		return nil, cluster.Errorf(cluster.CodeInvalidParameter, "instances %v", ids)
	}
	var out []*cluster.Instance
	for _, id := range ids {
		if i := e.instances[id]; i != nil && i.Cluster == clusterName {
			next := *i
			next.Attributes = maps.Clone(i.Attributes)
			out = append(out, &next)
		}
	}
	return out, nil
}

func (e *fakeECS) DescribeTaskDefinition(_ context.Context, name string) (*cluster.TaskDefinition, error) {
	if d := e.definitions[cluster.LastPart(name)]; d != nil {
		next := *d
		if e.onDescribe != nil {
			e.onDescribe(next.Name())
		}
		return &next, nil
	}
	return nil, cluster.Errorf(cluster.CodeClient, "Unable to describe task definition.")
}

func (e *fakeECS) DeregisterTaskDefinition(_ context.Context, name string) error {
	e.deregistered = append(e.deregistered, name)
	if e.onDeregister != nil {
		if err := e.onDeregister(name); err != nil {
			return err
		}
	}
	d := e.definitions[name]
	if d == nil {
		return cluster.Errorf(cluster.CodeClient, "Unable to describe task definition.")
	}
	d.Inactive = true
	return nil
}

func (e *fakeECS) DeleteTaskDefinition(_ context.Context, name string) error {
	e.deleted = append(e.deleted, name)
	if e.onDelete != nil {
		return e.onDelete(name)
	}
	return nil
}

func (e *fakeECS) ListFamilies(context.Context) (out []string, err error) {
	for _, d := range e.definitions {
		out = append(out, d.Family)
	}
	return out, nil
}

func (e *fakeECS) ClusterActive(_ context.Context, name string) (bool, error) {
	return e.clusters[name], nil
}

// object is a JSON object.
type object = map[string]any

// event returns an event of ECS as EventBridge delivers it.
func event(detailType string, detail object) []byte {
	data, err := json.Marshal(object{
		"version": "0", "id": "1", "source": "aws.ecs", "detail-type": detailType, "account": account.ID,
		"region": account.Region, "time": "2026-11-21T09:00:00Z", "detail": detail,
	})
	if err != nil {
		panic(err)
	}
	return data
}

func taskEvent(t cluster.ECSTask) []byte {
	container := object{"name": "app"}
	if t.ExitCode != nil {
		container["exitCode"] = *t.ExitCode
	}
	gpus := []string{}
	for n := range t.Needs.GPUs {
		gpus = append(gpus, fmt.Sprint("GPU-", n))
	}
	container["gpuIds"] = gpus
	var bindings []object
	for _, p := range t.Ports {
		bindings = append(bindings, object{"hostPort": p.Number, "protocol": string(p.Protocol)})
	}
	container["networkBindings"] = bindings
	d := object{
		"taskArn": account.ARN("task", t.Cluster, t.ID), "clusterArn": account.ARN("cluster", t.Cluster),
		"taskDefinitionArn": account.ARN("task-definition", t.TaskDefinition),
		"group":             t.Group, "startedBy": t.StartedBy, "lastStatus": string(t.Last), "desiredStatus": string(t.Desired),
		"version": t.Version, "cpu": fmt.Sprint(t.Needs.CPU / cluster.CPUUnit),
		"memory": fmt.Sprint(t.Needs.Memory), "stopCode": t.StopCode, "stoppedReason": t.Reason, "containers": []object{container},
	}
	if t.Instance != "" {
		d["containerInstanceArn"] = account.ARN("container-instance", t.Cluster, t.Instance)
	}
	if !t.Started.IsZero() {
		d["startedAt"] = t.Started
	}
	if !t.Stopped.IsZero() {
		d["stoppedAt"] = t.Stopped
	}
	return event("ECS Task State Change", d)
}

func instanceEvent(i *cluster.Instance) []byte {
	var attributes []object
	for _, name := range slices.Sorted(maps.Keys(i.Attributes)) {
		attributes = append(attributes, object{"name": name, "value": i.Attributes[name]})
	}
	resources := []object{
		{"name": "CPU", "type": "INTEGER", "integerValue": i.Registered.CPU / cluster.CPUUnit},
		{"name": "MEMORY", "type": "INTEGER", "integerValue": i.Registered.Memory},
		{"name": "GPU", "type": "STRINGSET", "stringSetValue": i.Registered.GPUs},
	}
	for _, name := range slices.Sorted(maps.Keys(i.Registered.Metrics)) {
		resources = append(resources, object{"name": name, "type": "INTEGER", "integerValue": i.Registered.Metrics[name]})
	}
	return event("ECS Container Instance State Change", object{
		"containerInstanceArn": account.ARN("container-instance", i.Cluster, i.ID), "clusterArn": account.ARN("cluster", i.Cluster),
		"ec2InstanceId": i.EC2InstanceID, "status": string(i.Status), "agentConnected": i.AgentConnected, "version": i.Version,
		"registeredAt": i.RegisteredAt, "attributes": attributes, "registeredResources": resources, "capacityProviderName": i.Provider,
	})
}
