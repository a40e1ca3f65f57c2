package handler_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// fakeTypes is the part of EC2 that describes instance types. It counts its calls.
type fakeTypes struct {
	template cluster.LaunchTemplate
	types    map[string]cluster.InstanceType
	matching []string // what any attribute-based selection matches
	refuse   error
	calls    int
}

func (f *fakeTypes) LaunchTemplate(context.Context, cluster.TemplateRef) (*cluster.LaunchTemplate, error) {
	f.calls++
	return &f.template, f.refuse
}

func (f *fakeTypes) DescribeTypes(_ context.Context, names []string) (out []cluster.InstanceType, err error) {
	f.calls++
	for _, name := range names {
		out = append(out, f.types[name])
	}
	return out, f.refuse
}

func (f *fakeTypes) MatchTypes(context.Context, string) ([]string, error) {
	f.calls++
	return f.matching, f.refuse
}

// newSized returns a world whose group launches the type t3.small by its launch template.
func newSized(t *testing.T) (*scaled, *fakeTypes) {
	s := newScaled(t, nil)
	f := &fakeTypes{template: cluster.LaunchTemplate{Type: "t3.small"}, types: map[string]cluster.InstanceType{
		"t3.small":   {Name: "t3.small", VCPUs: 2, Memory: 2048},
		"m5.8xlarge": {Name: "m5.8xlarge", VCPUs: 32, Memory: 131072},
		"m5.4xlarge": {Name: "m5.4xlarge", VCPUs: 16, Memory: 65536},
	}}
	s.function.Types, s.groups["g"].Template = f, "lt-1:1"
	return s, f
}

// createBig creates a service whose task needs more than a t3.small has.
func (s *scaled) createBig() {
	s.createAs(operation.CreateService{Cluster: prod, Name: "big", TaskDefinition: "big", Desired: new(1)})
}

// ignored counts the events of the service big which say that its task is ignored for a reason.
func (s *scaled) ignored(reason string) (n int) {
	for _, m := range s.events("big") {
		if strings.Contains(m, "ignored when capacity provider p scales out") && strings.Contains(m, reason) {
			n++
		}
	}
	return n
}

// No instance is launched for a task that the group's type cannot hold, and one event says why
// (C2).
func TestManagedScaling_LaunchesNothingThatCannotHoldATask(t *testing.T) {
	t.Run("ByTheLaunchTemplate", func(t *testing.T) {
		s, f := newSized(t)
		s.minute(5)
		want(t, "calls while nothing waits", f.calls, 0)
		s.createBig()
		s.minute(20)
		want(t, "desired", s.groups["g"].Desired, 0)
		want(t, "events", s.ignored("not even the largest, t3.small: insufficient"), 1)
		want(t, "calls", f.calls, 2)
	})
	t.Run("ByTheMixedInstancesPolicy", func(t *testing.T) {
		s, f := newSized(t)
		s.groups["g"].Types = []string{"m5.8xlarge", "t3.small"}
		s.createBig()
		s.minute(5)
		want(t, "desired", s.groups["g"].Desired, 0)
		want(t, "events", s.ignored("smallest type, t3.small: insufficient"), 1)
		want(t, "calls", f.calls, 1)
	})
	t.Run("ByAttributes", func(t *testing.T) {
		s, f := newSized(t)
		f.matching = []string{"t3.small", "m5.4xlarge", "m5.8xlarge"}
		f.template = cluster.LaunchTemplate{Requirements: `{"VCpuCount": {"Min": 2}}`}
		s.createBig()
		s.minute(5)
		want(t, "desired", s.groups["g"].Desired, 0)
		want(t, "calls", f.calls, 3)
		s.groups["g"].Requirements = []string{`{"VCpuCount": {"Min": 16}}`}
		f.matching = f.matching[1:]
		s.minute(1)
		want(t, "calls after a change", f.calls, 5)
		want(t, "desired for larger types", s.groups["g"].Desired, 2)
	})
}

// A type that can hold the task is launched as before, and so is a group of which EC2 says nothing.
func TestManagedScaling_LaunchesWhatMayHoldATask(t *testing.T) {
	for name, change := range map[string]func(*scaled, *fakeTypes){
		"ALargeType":       func(s *scaled, f *fakeTypes) { f.template.Type = "m5.8xlarge" },
		"NoTypeInTemplate": func(s *scaled, f *fakeTypes) { f.template.Type = "" },
		"NoTemplate":       func(s *scaled, f *fakeTypes) { s.groups["g"].Template = "" },
		"NoPermission":     func(s *scaled, f *fakeTypes) { f.refuse = cluster.Errorf("UnauthorizedOperation", "no") },
		"NoAnswer":         func(s *scaled, f *fakeTypes) { f.refuse = errors.New("no answer") },
		"NoPort":           func(s *scaled, f *fakeTypes) { s.function.Types = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s, f := newSized(t)
			change(s, f)
			s.createBig()
			s.minute(3)
			want(t, "desired", s.groups["g"].Desired, 2)
		})
	}
}

// EC2 is not asked each minute: neither after an answer nor after a refusal that will stay. $Latest
// may be another version ten minutes later.
func TestManagedScaling_AsksForTypesSeldom(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scaled, *fakeTypes)
		calls  int
	}{
		"AVersion":     {func(*scaled, *fakeTypes) {}, 2},
		"Latest":       {func(s *scaled, f *fakeTypes) { s.groups["g"].Template = "lt-1:$Latest" }, 2 * 6},
		"NoPermission": {func(s *scaled, f *fakeTypes) { f.refuse = cluster.Errorf("UnauthorizedOperation", "no") }, 6},
	} {
		t.Run(name, func(t *testing.T) {
			s, f := newSized(t)
			s.groups["g"].Max = 0
			c.change(s, f)
			s.createBig()
			s.minute(60)
			want(t, "calls in an hour", f.calls, c.calls)
		})
	}
}

// The desired capacity is published beside the reservation, as the group has it after the minute.
func TestManagedScaling_PublishesTheDesiredCapacity(t *testing.T) {
	s, f := newSized(t)
	f.template.Type = "m5.8xlarge"
	s.minute(1)
	want(t, "desired capacity at first", s.points[len(s.points)-1].Desired, 0)
	s.createBig()
	s.minute(1)
	last := s.points[len(s.points)-1]
	want(t, "desired capacity", last.Desired, 2)
	want(t, "reservation", last.Percent, 200)
}
