package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"berth/tests/bench/workload"
)

// kube is kube-scheduler with its default plugins, without an API server: what comes and goes is told to its cache, as
// its informers would. One decision is what its scheduling cycle does up to binding: UpdateSnapshot, SchedulePod,
// AssumePod. A pod that does not fit is dropped; nothing is preempted.
type kube struct {
	ctx       context.Context
	stop      context.CancelFunc
	sched     *scheduler.Scheduler
	framework framework.Framework
	snapshot  *cache.Snapshot
	services  []workload.Service
	templates []*corev1.Pod
	names     []string
	position  map[string]int
	pods      map[int]*corev1.Pod
	next      *framework.QueuedPodInfo
}

// newKube is a kube-scheduler over the workload's instances. percentage is percentageOfNodesToScore, nil for its own
// adaptive one.
func newKube(w *workload.Workload, percentage *int32) (*kube, error) {
	ctx, stop := context.WithCancel(context.Background())
	client := fake.NewClientset()
	sched, err := scheduler.New(ctx, client, scheduler.NewInformerFactory(client, 0), nil,
		profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})),
		scheduler.WithParallelism(1), scheduler.WithPercentageOfNodesToScore(percentage))
	if err != nil {
		stop()
		return nil, fmt.Errorf("making kube-scheduler: %w", err)
	}
	k := &kube{
		ctx: ctx, stop: stop, sched: sched, framework: sched.Profiles[corev1.DefaultSchedulerName], services: w.Services,
		position: map[string]int{}, pods: map[int]*corev1.Pod{},
	}
	snapshot, ok := k.framework.SnapshotSharedLister().(*cache.Snapshot)
	if !ok {
		stop()
		return nil, errors.New("kube-scheduler keeps another kind of snapshot than expected")
	}
	k.snapshot = snapshot
	for i := range w.Instances {
		n := node(&w.Instances[i])
		sched.Cache.AddNode(klog.Background(), n)
		k.names, k.position[n.Name] = append(k.names, n.Name), i
	}
	for i := range w.Services {
		k.templates = append(k.templates, pod(&w.Services[i]))
	}
	return k, nil
}

func (k *kube) close() { k.stop() }

// make is the pod of a task.
func (k *kube) make(task, service int) *corev1.Pod {
	p := k.templates[service].DeepCopy()
	p.Name = fmt.Sprintf("%s-%d", k.services[service].Name, task)
	p.UID = types.UID(p.Name)
	k.pods[task] = p
	return p
}

// Seat implements workload.Engine.
func (k *kube) Seat(task, service, instance int) error {
	p := k.make(task, service)
	p.Spec.NodeName = k.names[instance]
	return k.sched.Cache.AddPod(klog.Background(), p)
}

// Ready implements workload.Engine: the first snapshot is of all nodes, those after it of what changed.
func (k *kube) Ready() error { return k.sched.Cache.UpdateSnapshot(klog.Background(), k.snapshot) }

// Prepare implements workload.Engine: the pod goes through the scheduler's queue.
func (k *kube) Prepare(task, service int) {
	k.sched.SchedulingQueue.Add(k.ctx, k.make(task, service))
	next, err := k.sched.NextPod(klog.Background())
	if err != nil {
		panic(err) // the queue is never closed
	}
	k.next = next
}

// Place implements workload.Engine.
func (k *kube) Place(task, _ int) (workload.Placement, error) {
	p := k.next.Pod
	defer k.sched.SchedulingQueue.Done(p.UID)
	if err := k.sched.Cache.UpdateSnapshot(klog.Background(), k.snapshot); err != nil {
		return workload.Placement{}, fmt.Errorf("updating the snapshot: %w", err)
	}
	result, err := k.sched.SchedulePod(k.ctx, k.framework, framework.NewCycleState(), k.next)
	if unfit := (*framework.FitError)(nil); errors.As(err, &unfit) {
		delete(k.pods, task)
		return workload.Placement{Instance: workload.None, Considered: unfit.Diagnosis.NodeToStatus.Len()}, nil
	}
	if err != nil {
		return workload.Placement{}, fmt.Errorf("scheduling %s: %w", p.Name, err)
	}
	p.Spec.NodeName = result.SuggestedHost
	if err := k.sched.Cache.AssumePod(klog.Background(), p); err != nil {
		return workload.Placement{}, fmt.Errorf("assuming %s: %w", p.Name, err)
	}
	return workload.Placement{Instance: k.position[result.SuggestedHost], Considered: result.EvaluatedNodes}, nil
}

// Leave implements workload.Engine.
func (k *kube) Leave(task, _, _ int) error {
	p := k.pods[task]
	delete(k.pods, task)
	return k.sched.Cache.RemovePod(klog.Background(), p)
}
