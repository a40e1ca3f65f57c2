package doctor

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"berth"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/handler"
)

var testTime = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// newStack returns a complete stack of template.yaml with the parameters, whose resources have
// physical ids like those of AWS.
func newStack(t *testing.T, parameters map[string]string) Stack {
	t.Helper()
	s := Stack{Name: "prod", ID: "arn:aws:cloudformation:eu-west-1:123456789012:stack/prod/1",
		Status:     "CREATE_COMPLETE",
		Parameters: parameters, Resources: map[string]Resource{}}
	p, err := NewPlan(berth.Template, s)
	if err != nil {
		t.Fatal(err)
	}
	for id, kind := range p.Resources {
		physical := "prod-" + id
		switch kind {
		case "AWS::SQS::Queue":
			physical = "https://sqs.eu-west-1.amazonaws.com/123456789012/prod-" + id
		case "AWS::Events::Rule":
			if bus := p.Rules[id].Bus; bus != "" {
				physical = "prod-" + bus + "|" + physical
			}
		case "AWS::Logs::LogGroup":
			physical = "/berth/prod/" + id
		}
		s.Resources[id] = Resource{Type: kind, ID: physical, Status: "CREATE_COMPLETE"}
	}
	return s
}

// newFacts returns what is read of an installation in which all is well: a cluster with a group of
// one machine.
func newFacts(t *testing.T) *Facts {
	t.Helper()
	f := &Facts{Stack: newStack(t, nil), Now: testTime, JoinWithin: 10 * time.Minute}
	var err error
	if f.Plan, err = NewPlan(berth.Template, f.Stack); err != nil {
		t.Fatal(err)
	}
	f.Functions, f.Roles, f.Mappings = map[string]Read[Function]{}, map[string]Read[Role]{}, map[string]Read[Mapping]{}
	f.Rules, f.Schedules, f.Queues = map[string]Read[Rule]{}, map[string]Read[Schedule]{}, map[string]Read[Queue]{}
	const stream = "arn:aws:dynamodb:eu-west-1:123456789012:table/prod-Table/stream/1"
	f.Table.Got = Table{Status: "ACTIVE", StreamARN: stream, StreamView: "NEW_AND_OLD_IMAGES",
		TTL: Read[string]{Got: "ttl"}}
	for id, p := range f.Plan.Functions {
		f.Functions[id] = Read[Function]{Got: Function{State: "Active", Update: "Successful", Variables: p.Variables,
			Role: "arn:aws:iam::123456789012:role/" + f.physical(p.Role)}}
	}
	for id, p := range f.Plan.Roles {
		f.Roles[id] = Read[Role]{Got: Role{Policies: []Policy{{p.Statements}}}}
	}
	for id, p := range f.Plan.Queues {
		q := Queue{URL: f.physical(id), ARN: "arn:aws:sqs:eu-west-1:123456789012:prod-" + id}
		if p.DeadLetters != "" {
			q.DeadLettersARN = "arn:aws:sqs:eu-west-1:123456789012:prod-" + p.DeadLetters
		}
		f.Queues[id] = Read[Queue]{Got: q}
	}
	for id, p := range f.Plan.Mappings {
		m := Mapping{ID: f.physical(id), State: "Enabled", Source: stream}
		if p.Queue != "" {
			m.Source = f.Queues[p.Queue].Got.ARN
		}
		f.Mappings[id] = Read[Mapping]{Got: m}
	}
	for id, p := range f.Plan.Rules {
		r := Rule{Name: id, Bus: "default", State: "ENABLED"}
		for _, queue := range p.Queues {
			r.Targets.Got = append(r.Targets.Got, f.Queues[queue].Got.ARN)
		}
		f.Rules[id] = Read[Rule]{Got: r}
	}
	for id, p := range f.Plan.Schedules {
		f.Schedules[id] = Read[Schedule]{Got: Schedule{Name: id, State: "ENABLED",
			Target: "arn:aws:lambda:eu-west-1:123456789012:function:" + f.physical(p.Function)}}
	}
	f.Lambda.Got, f.Scaling.Got = LambdaLimits{1000, 1000}, ScalingLimits{1, 500}
	f.Quotas = map[QuotaID]Read[Quota]{}
	for id := range AccountQuotas {
		f.Quotas[id] = Read[Quota]{Got: Quota{Value: 5000, Used: Read[float64]{Got: 40}}}
	}
	f.addCluster("forge", 1)
	f.VCPUs.Got = map[string]int{"m5.large": 2, "g5.12xlarge": 48}
	f.useVCPUs("L-1216C47A", 32, 2)
	return f
}

// useVCPUs sets a quota of EC2, and what is used of it.
func (f *Facts) useVCPUs(code string, value, used float64) {
	f.Quotas[QuotaID{"ec2", code}] = Read[Quota]{Got: Quota{Value: value, Used: Read[float64]{Got: used}}}
}

// addCluster adds a cluster with a capacity provider, whose group has n machines that have joined.
func (f *Facts) addCluster(name string, n int) {
	c := Cluster{Name: name, Capacity: Read[*whatif.Capacity]{Got: &whatif.Capacity{
		Providers: map[string]*cluster.CapacityProvider{
			"p": {Name: "p", Group: name + "-group", Clusters: []string{name}}}}}}
	c.ECS.Got.Status = "ACTIVE"
	g := Group{Name: name + "-group", Max: 6, OnDemand: []string{"m5.large"},
		Tags: map[string]string{handler.OwnerTag: f.Stack.Name}}
	g.Template.Got = Template{Name: "workers", Version: "7", Profile: "node", UserData: userData("ECS_CLUSTER=" + name)}
	g.Template.Got.Roles.Got = []InstanceRole{{Name: "node",
		Role: Read[Role]{Got: Role{Managed: []string{"arn:aws:iam::aws:policy/service-role" + agentPolicy}}}}}
	for i := range n {
		id := fmt.Sprintf("i-%d", i)
		c.ECS.Got.Instances = append(c.ECS.Got.Instances, ECSInstance{ID: "c" + id, EC2: id, Status: "ACTIVE",
			AgentConnected: true, RegisteredAt: testTime.Add(-time.Hour)})
		c.Known.Got = append(c.Known.Got, &cluster.Instance{ID: "c" + id, EC2InstanceID: id, Status: "ACTIVE",
			AgentConnected: true})
		g.Instances = append(g.Instances, Member{ID: id, Lifecycle: "InService"})
	}
	f.Clusters.Got = append(f.Clusters.Got, c)
	if f.Groups == nil {
		f.Groups = map[string]Read[Group]{}
	}
	f.Groups[g.Name] = Read[Group]{Got: g}
}

// userData returns a script with a line for the agent's configuration.
func userData(line string) string {
	return base64.StdEncoding.EncodeToString([]byte("#!/bin/bash\necho " + line + " >> /etc/ecs/ecs.config\n"))
}

// change changes what was read of one thing.
func change[K comparable, T any](all map[K]Read[T], id K, do func(*T)) {
	r := all[id]
	do(&r.Got)
	all[id] = r
}
