package cluster_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"berth/shared/cluster"
)

func TestTaskStatus(t *testing.T) {
	for _, c := range []struct {
		instance      string
		desired, last cluster.TaskStatus
		want          cluster.TaskStatus
		is            string // e ended, w waiting, a active, h holds
	}{
		{"", cluster.TaskRunning, "", cluster.TaskProvisioning, "wa"},
		{"", cluster.TaskStopped, "", cluster.TaskStopped, "e"},
		{"", cluster.TaskStopped, cluster.TaskStopped, cluster.TaskStopped, "e"},
		{"i", cluster.TaskRunning, "", cluster.TaskPending, "ah"},
		{"i", cluster.TaskStopped, "", cluster.TaskPending, "h"},
		{"i", cluster.TaskRunning, cluster.TaskRunning, cluster.TaskRunning, "ah"},
		{"i", cluster.TaskStopped, cluster.TaskRunning, cluster.TaskStopping, "h"},
		{"i", cluster.TaskRunning, cluster.TaskStopping, cluster.TaskStopping, "h"},
		{"i", cluster.TaskRunning, cluster.TaskStopped, cluster.TaskStopped, "e"},
		{"i", cluster.TaskStopped, cluster.TaskStopped, cluster.TaskStopped, "e"},
	} {
		t.Run(fmt.Sprintf("%s %s last %s", c.instance, c.desired, c.last), func(t *testing.T) {
			x := &cluster.Task{
				TaskAssignment: cluster.TaskAssignment{Instance: c.instance, Desired: c.desired},
				TaskReport:     cluster.TaskReport{Last: c.last},
			}
			is := ""
			for _, p := range []struct {
				letter string
				holds  bool
			}{{"e", x.HasEnded()}, {"w", x.IsProvisioning()}, {"a", x.IsActive()}, {"h", x.HoldsCapacity()}} {
				if p.holds {
					is += p.letter
				}
			}
			expect(t, "status", x.Status(), c.want)
			expect(t, "is", is, c.is)
		})
	}
}

func TestNeverRan(t *testing.T) {
	failed := &cluster.Task{
		TaskAssignment: cluster.TaskAssignment{Instance: "i", Desired: cluster.TaskRunning},
		TaskReport:     cluster.TaskReport{Last: cluster.TaskStopped},
	}
	expect(t, "failed", failed.NeverRan(), true)
	expect(t, "ran", edit(failed, func(t *cluster.Task) { t.Started = cluster.At(noon) }).NeverRan(), false)
	expect(t, "stopped by Berth", edit(failed, func(t *cluster.Task) { t.Desired = cluster.TaskStopped }).NeverRan(),
		false)
	for _, code := range []string{cluster.StopRefused, cluster.StopInfrastructure, cluster.StopTermination,
		cluster.StopSpot} {
		expect(t, code, edit(failed, func(t *cluster.Task) { t.StopCode = code }).NeverRan(), false)
	}
	expect(t, "not yet", edit(failed, func(t *cluster.Task) { t.Last = "" }).NeverRan(), false)
}

func TestInstanceAttributes(t *testing.T) {
	i := instance("i", "a", 1)
	expect(t, "zone", i.Zone(), "a")
	expect(t, "available", i.IsAvailable(), true)
	for name, change := range map[string]func(*cluster.Instance){
		"status":     func(i *cluster.Instance) { i.Status = cluster.InstanceDraining },
		"agent":      func(i *cluster.Instance) { i.AgentConnected = false },
		"ec2":        func(i *cluster.Instance) { i.EC2InstanceID = "i-2" },
		"cpu":        func(i *cluster.Instance) { i.Registered.CPU++ },
		"memory":     func(i *cluster.Instance) { i.Registered.Memory++ },
		"gpus":       func(i *cluster.Instance) { i.Registered.GPUs = nil },
		"ports":      func(i *cluster.Instance) { i.Registered.Ports = nil },
		"attributes": func(i *cluster.Instance) { i.Attributes = nil },
	} {
		other := instance("i", "a", 9)
		expect(t, name+": same before", i.SameReport(other), true)
		change(other)
		expect(t, name+": same", i.SameReport(other), false)
		expect(t, name+": available", other.IsAvailable(), name != "status" && name != "agent")
	}
	i.Status = cluster.InstanceInactive
	expect(t, "gone", i.IsDeregistered(), true)
}

func TestUnits(t *testing.T) {
	expect(t, "a thousandth of a vCPU", cluster.MilliVCPU*1000, cluster.VCPU)
	expect(t, "1,024 units", cluster.CPUUnit*1024, cluster.VCPU)
	expect(t, "whole", cluster.Resources{GPUs: 2}.PerGPU(), 1000)
	expect(t, "share", cluster.Resources{GPUs: 1, GPUMilli: 250}.PerGPU(), 250)
	expect(t, "name", (&cluster.TaskDefinition{Family: "web", Revision: 3}).Name(), "web:3")
}

func TestDiagnosisText(t *testing.T) {
	d := &cluster.Diagnosis{Evaluated: 12, Rejected: []cluster.Rejection{
		{Filter: cluster.FilterPort, Count: 1, Detail: "80/tcp"}, {Filter: cluster.FilterStatus, Count: 3},
		{Filter: cluster.FilterMemory, Count: 5, Need: 1 << 21, Best: 812.5},
		{Filter: cluster.FilterGPU, Count: 1, Need: 0.5, Best: 0.25},
		{Filter: cluster.FilterPort, Count: 1, Detail: "443/tcp"},
		{Filter: cluster.FilterCPU, Count: 1, Need: 1024, Best: -1},
	}}
	expect(t, "text", d.String(), "0/12: 5 insufficient memory (needs 2097152 MiB, best free 812.5), 3 not active, "+
		"1 insufficient CPU (needs 1024 units, best free -1), 1 insufficient GPU (needs 0.5, best free 0.25), "+
		"1 port in use (443/tcp), 1 port in use (80/tcp)")
	expect(t, "order of the rows", d.Rejected[0].Filter, cluster.FilterPort)
	expect(t, "nothing", (&cluster.Diagnosis{Evaluated: 2, Feasible: 2}).String(), "2/2")
	for filter, want := range map[cluster.Filter]string{
		cluster.FilterStatus: "INACTIVE", cluster.FilterAgent: "AGENT", cluster.FilterAttribute: "ATTRIBUTE",
		cluster.FilterTaint: "ATTRIBUTE",
		cluster.FilterPort:  "RESOURCE:PORTS",
		cluster.FilterCPU:   "RESOURCE:CPU", cluster.FilterMemory: "RESOURCE:MEMORY", cluster.FilterGPU: "RESOURCE:GPU",
		cluster.FilterENI:        "RESOURCE:ENI",
		cluster.FilterConstraint: "MemberOf placement constraint unsatisfied.",
		cluster.FilterOccupied:   "DistinctInstance placement constraint unsatisfied.",
		cluster.FilterMetric:     "RESOURCE:OTHER",
	} {
		expect(t, string(filter), (&cluster.Diagnosis{Evaluated: 1, Closest: "i",
			ClosestFilter: filter}).FailureReason(), want)
	}
	expect(t, "refused", (&cluster.Diagnosis{Evaluated: 1, Closest: "i", ClosestFilter: cluster.FilterRefused,
		Refusal: "RESOURCE:ENI"}).FailureReason(), "RESOURCE:ENI")
	expect(t, "without instances", (&cluster.Diagnosis{}).FailureReason(),
		"No Container Instances were found in your cluster.")
	expect(t, "without instances of the provider", (&cluster.Diagnosis{Evaluated: 1, Empty: "spot",
		Closest: "i"}).FailureReason(), "EMPTY CAPACITY PROVIDER")
}

func TestErrors(t *testing.T) {
	wrapped := fmt.Errorf("starting task t: %w", cluster.Errorf(cluster.CodeClient, "no %s", "luck"))
	expect(t, "code", cluster.ErrorCode(wrapped), cluster.CodeClient)
	expect(t, "text", wrapped.Error(), "starting task t: ClientException: no luck")
	expect(t, "any other", cluster.ErrorCode(errors.New("x")), cluster.CodeServer)
	expect(t, "drop", (&cluster.Drop{Reason: "no JSON"}).Error(), "dropped: no JSON")
}

// Supersedes is an order, by the parts that its comment names.
func TestInstanceSupersedes(t *testing.T) {
	at := func(minute int, status cluster.InstanceStatus, connected bool) *cluster.Instance {
		return &cluster.Instance{
			ID: "i", Status: status, AgentConnected: connected,
			RegisteredAt: cluster.At(time.Date(2026, 11, 21, 12, minute, 0, 0, time.UTC)),
		}
	}
	gone, left := at(9, cluster.InstanceInactive, false), at(5, cluster.InstanceActive, false)
	early, late := at(1, cluster.InstanceDraining, true), at(2, cluster.InstanceActive, true)
	twin := at(2, cluster.InstanceActive, true)
	twin.ID = "j"
	order := []*cluster.Instance{nil, gone, left, early, late, twin}
	for n, of := range order {
		for m, than := range order {
			if of != nil && of.Supersedes(than) != (n > m) {
				t.Errorf("%d supersedes %d: %t", n, m, n <= m)
			}
		}
	}
}
