package problem_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"berth/cmd/berth/problem"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/shared/state"
)

var (
	noon     = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	tenPast  = noon.Add(10 * time.Minute)
	webNeeds = cluster.Resources{CPU: 256 * cluster.CPUUnit, Memory: 512}
)

// world is a cluster in the making.
type world struct {
	rows     []state.Row
	services map[string]*cluster.Service
	input    problem.Input
}

func newWorld() *world {
	return &world{services: map[string]*cluster.Service{}, input: problem.Input{Cluster: "prod", Now: tenPast}}
}

func (w *world) head() cluster.Head { return cluster.Head{Cluster: "prod", Rev: 1} }

// instance adds n-<k> with room for four tasks of web, in zone a and rack r1.
func (w *world) instance(k int, change ...func(*cluster.Instance)) *cluster.Instance {
	i := &cluster.Instance{
		Head: w.head(), ID: fmt.Sprintf("n-%d", k), EC2InstanceID: fmt.Sprintf("i-%d", k),
		Status: cluster.InstanceActive, AgentConnected: true, RegisteredAt: cluster.At(noon.Add(-time.Hour)),
		Registered: cluster.Capacity{CPU: 1024 * cluster.CPUUnit, Memory: 2048},
		Attributes: map[string]string{cluster.AttributeZone: "a", "rack": "r1"},
	}
	for _, f := range change {
		f(i)
	}
	w.rows = append(w.rows, i)
	return i
}

// service adds an ACTIVE service of web's size, with its definition.
func (w *world) service(name string, desired int, change ...func(*cluster.Service)) *cluster.Service {
	s := &cluster.Service{
		Head: w.head(), ServiceIdentity: cluster.ServiceIdentity{Name: name, Short: name + "-short"},
		ServiceSpec: cluster.ServiceSpec{Strategy: cluster.Replica, Desired: desired, MinHealthy: 100, MaxPercent: 200},
		ServiceStatus: cluster.ServiceStatus{Status: cluster.ServiceActive, Deployment: cluster.Deployment{
			Revision: cluster.Revision{ID: "ecs-svc/2", TaskDefinition: name + ":1", CreatedAt: noon},
			State:    cluster.RolloutCompleted}},
	}
	for _, f := range change {
		f(s)
	}
	w.services[name] = s
	w.rows = append(w.rows, s, &cluster.TaskDefinition{Head: w.head(), Family: name, Revision: 1, Needs: webNeeds})
	return s
}

// application adds a service of the application shop, whose tasks have 10 connections, with the limits.
func (w *world) application(name string, desired int, limits cluster.Application) {
	w.rows = append(w.rows, &cluster.Configuration{Head: w.head(),
		Applications: map[string]cluster.Application{"shop": limits}})
	w.service(name, desired, func(s *cluster.Service) {
		s.Rules.Application, s.Rules.Metrics = "shop", []cluster.Metric{{Name: "connections", Load: 10}}
	})
}

// task adds t-<k>, RUNNING since noon.
func (w *world) task(of string, k int, on string, change ...func(*cluster.Task)) *cluster.Task {
	t := &cluster.Task{
		Head: w.head(),
		TaskSpec: cluster.TaskSpec{ID: fmt.Sprintf("t-%d", k), Owner: of + "-short", Service: of,
			Group:          "service:" + of,
			TaskDefinition: of + ":1", Needs: webNeeds, CreatedAt: cluster.At(noon)},
		TaskAssignment: cluster.TaskAssignment{Instance: on, Desired: cluster.TaskRunning},
		TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning, ECSID: fmt.Sprintf("ecs-%d", k)},
	}
	for _, f := range change {
		f(t)
	}
	w.rows = append(w.rows, t)
	return t
}

// snapshot builds the cluster. Services that miss tasks get the diagnosis that placement finds.
func (w *world) snapshot(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	snap := snapshot.NewSnapshot()
	for _, r := range w.rows {
		snap.Put(r)
	}
	for name, s := range w.services {
		missing := s.Desired - len(snap.TasksOf(s.Short))
		if missing <= 0 || snap.Throttle(s.Short) != nil {
			continue
		}
		spec, err := placement.NewSpec(snap.Definitions[name+":1"], s.Short, "service:"+name, &s.Rules)
		if err != nil {
			t.Fatal(err)
		}
		if parent := w.services[s.Rules.Affinity]; parent != nil {
			spec.Affinity = parent.Short
		}
		found := placement.New(snap).Place(placement.Request{Spec: spec, Count: missing, Target: s.Desired})
		next := *s
		next.Rev, next.Blocked, next.BlockedSince = 2, found.Diagnosis, noon
		snap.Put(&next)
	}
	return snap
}

// find returns the problems of the world.
func (w *world) find(t *testing.T) []problem.Problem {
	t.Helper()
	w.input.Snapshot = w.snapshot(t)
	return problem.Find(w.input)
}

// capacity gives the world a capacity provider whose group has the instances.
func (w *world) capacity(change ...func(*cluster.CapacityProvider, *cluster.AutoScalingGroup)) *whatif.Capacity {
	p := &cluster.CapacityProvider{Name: "spot", Group: "group", Scaling: cluster.DefaultScaling,
		UpdateStatus: cluster.ProviderCreated}
	p.Scaling.Enabled, p.Scaling.Warmup = true, 0
	g := &cluster.AutoScalingGroup{Name: "group", Max: 6, Zones: []string{"a"}, Template: "lt-1:1"}
	for _, r := range w.rows {
		if i, ok := r.(*cluster.Instance); ok {
			i.Provider = "spot"
			g.Desired++
			g.Instances = append(g.Instances, cluster.GroupInstance{ID: i.EC2InstanceID, Zone: "a",
				Lifecycle: "InService",
				Template:  "lt-1:1", LaunchedAt: noon.Add(-time.Hour)})
		}
	}
	for _, f := range change {
		f(p, g)
	}
	w.input.Capacity = &whatif.Capacity{
		Providers: map[string]*cluster.CapacityProvider{"spot": p},
		Groups:    map[string]*cluster.AutoScalingGroup{"group": g},
		Histories: map[string]*cluster.ScalingHistory{}, NodeGroups: map[string]*cluster.NodeGroup{},
		Updates: map[string]*cluster.Update{},
	}
	return w.input.Capacity
}

// withAttributes sets attributes of an instance.
func withAttributes(set map[string]string) func(*cluster.Instance) {
	return func(i *cluster.Instance) { maps.Copy(i.Attributes, set) }
}
