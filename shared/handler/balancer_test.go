package handler_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler/dispatch"
	"berth/shared/state"
)

const (
	groupOne = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/one/1"
	groupTwo = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/two/2"
	cloudMap = "arn:aws:servicediscovery:eu-central-1:123456789012:service/srv-1"
)

// fakeBalancer is Elastic Load Balancing, Cloud Map and CloudWatch, as far as Berth calls them.
type fakeBalancer struct {
	groups  map[string]map[cluster.Address]cluster.TargetHealth
	delays  map[string]time.Duration
	entries map[string]map[string]cluster.TargetHealth
	alarms  map[string]cluster.Alarm
	at      map[string]cluster.Address // of entries, by id

	// before may refuse a call, by its name and its subject; after may lose its answer.
	before, after func(call, arn string, n int) error
	calls         []string
}

func newFakeBalancer() *fakeBalancer {
	return &fakeBalancer{
		groups:  map[string]map[cluster.Address]cluster.TargetHealth{groupOne: {}, groupTwo: {}},
		delays:  map[string]time.Duration{groupOne: time.Minute, groupTwo: 2 * time.Minute},
		entries: map[string]map[string]cluster.TargetHealth{cloudMap: {}}, alarms: map[string]cluster.Alarm{},
		at: map[string]cluster.Address{},
	}
}

func (b *fakeBalancer) call(name, arn string, n int, do func() error) error {
	b.calls = append(b.calls, name)
	if b.before != nil {
		if err := b.before(name, arn, n); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	if b.after != nil {
		return b.after(name, arn, n)
	}
	return nil
}

func (b *fakeBalancer) group(arn string) (map[cluster.Address]cluster.TargetHealth, error) {
	if g := b.groups[arn]; g != nil {
		return g, nil
	}
	return nil, cluster.Errorf(cluster.CodeTargetGroupNotFound, "Target groups '%s' not found", arn)
}

func (b *fakeBalancer) RegisterTargets(_ context.Context, arn string, targets []cluster.Address) error {
	return b.call("RegisterTargets", arn, len(targets), func() error {
		g, err := b.group(arn)
		for _, a := range targets {
			if _, classic := cluster.ClassicName(arn); err == nil && (a.Port == 0) != classic {
				err = cluster.Errorf(cluster.CodeInvalidTarget, "no port")
			}
		}
		for _, a := range targets {
			if err == nil {
				g[a] = cluster.TargetHealth{Reason: "Initial health checks in progress"}
			}
		}
		return err
	})
}

func (b *fakeBalancer) DeregisterTargets(_ context.Context, arn string, targets []cluster.Address) error {
	return b.call("DeregisterTargets", arn, len(targets), func() error {
		g, err := b.group(arn)
		for _, a := range targets {
			delete(g, a)
		}
		return err
	})
}

func (b *fakeBalancer) TargetHealth(
	_ context.Context, arn string,
) (out map[cluster.Address]cluster.TargetHealth, err error) {
	err = b.call("TargetHealth", arn, 0, func() error {
		g, err := b.group(arn)
		out = maps.Clone(g)
		return err
	})
	return out, err
}

func (b *fakeBalancer) DeregistrationDelay(_ context.Context, arn string) (time.Duration, error) {
	err := b.call("DeregistrationDelay", arn, 0, func() error { _, err := b.group(arn); return err })
	return b.delays[arn], err
}

func (b *fakeBalancer) RegisterInstance(_ context.Context, arn, id string, at cluster.Address) error {
	return b.call("RegisterInstance", arn, 1, func() error {
		if b.entries[arn] == nil {
			return cluster.Errorf(cluster.CodeRegistryNotFound, "Service not found")
		}
		b.entries[arn][id], b.at[id] = cluster.TargetHealth{Health: cluster.Healthy}, at
		return nil
	})
}

func (b *fakeBalancer) DeregisterInstance(_ context.Context, arn, id string) error {
	return b.call("DeregisterInstance", arn, 1, func() error {
		if _, here := b.entries[arn][id]; !here {
			return cluster.Errorf(cluster.CodeEntryNotFound, "Instance not found")
		}
		delete(b.entries[arn], id)
		return nil
	})
}

func (b *fakeBalancer) InstancesHealth(_ context.Context, arn string) (out map[string]cluster.TargetHealth, err error) {
	err = b.call("InstancesHealth", arn, 0, func() error {
		out = maps.Clone(b.entries[arn])
		return nil
	})
	return out, err
}

func (b *fakeBalancer) DescribeAlarms(_ context.Context, names []string) (out []cluster.Alarm, err error) {
	err = b.call("DescribeAlarms", "", len(names), func() error {
		for _, name := range names {
			if a, here := b.alarms[name]; here {
				out = append(out, a)
			}
		}
		return nil
	})
	return out, err
}

// count returns how often something was called.
func (b *fakeBalancer) count(name string) (n int) {
	for _, c := range b.calls {
		if c == name {
			n++
		}
	}
	return n
}

// balanced is a world whose service "web" runs n tasks, on container port 80 behind the instances'
// ports from 32768 on, each with a row that asks for its registration.
type balanced struct {
	*world
	elb     *fakeBalancer
	service *cluster.Service
	ids     []string
	number  int // of outbox rows
}

func newBalanced(t *testing.T, n int, wanted ...cluster.Registration) *balanced {
	t.Helper()
	b := &balanced{world: newWorld(t), elb: newFakeBalancer()}
	b.dispatch.LoadBalancers, b.dispatch.Registries, b.dispatch.Account = b.elb, b.elb, account
	b.instances("i", 3, 4096, 8192)
	b.service = b.create("web", "web", n)
	b.pump()
	for _, task := range b.with(cluster.TaskRunning) {
		b.ids = append(b.ids, task.ID)
	}
	wantCount(t, "running tasks", b.ids, n)
	for k, id := range b.ids {
		e := b.ecs.tasks[b.task(id).ECSID]
		e.Bindings = []cluster.Binding{
			{Container: "app", ContainerPort: 53, HostPort: 33000 + k, Protocol: cluster.UDP},
			{Container: "app", ContainerPort: 80, HostPort: 32768 + k, Protocol: cluster.TCP},
		}
		b.wants(id, wanted...)
	}
	return b
}

func inGroup(arn string) cluster.Registration {
	return cluster.Registration{ARN: arn, Container: "app", ContainerPort: 80}
}

// wants writes the row that placement writes for a running task.
func (b *balanced) wants(id string, wanted ...cluster.Registration) {
	b.t.Helper()
	row := &cluster.Target{
		Head: cluster.Head{Cluster: prod}, Task: id, Owner: b.service.Short, Service: b.service.Name,
		Registrations: slices.Clone(wanted),
	}
	if _, err := b.store.Write(ctx, state.Write{Put: row, Any: true}); err != nil {
		b.t.Fatal(err)
	}
}

// asks writes an outbox row, as a commit of placement does, and runs dispatch on it.
func (b *balanced) asks(o state.Outbox) {
	b.t.Helper()
	b.leaves(o)
	b.pump()
}

func (b *balanced) leaves(o state.Outbox) {
	b.t.Helper()
	b.number++
	o.Head, o.ID, o.CreatedAt = cluster.Head{Cluster: prod}, fmt.Sprintf("+%05d", b.number), b.clock.now
	if _, err := b.store.Write(ctx, state.Write{Put: &o, Any: true}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *balanced) items() (items []state.TargetItem) {
	for _, id := range b.ids {
		items = append(items, state.TargetItem{Owner: b.service.Short, ID: id})
	}
	return items
}

// stops marks a task as to be stopped, as placement does, and returns the item for dispatch.
func (b *balanced) stops(id string) state.StopItem {
	b.t.Helper()
	task := b.task(id)
	if _, err := b.store.Write(ctx, state.Write{Stop: &state.Stop{Task: state.KeyOf(task),
		Code: cluster.StopByScheduler, Reason: "scaled in"}}); err != nil {
		b.t.Fatal(err)
	}
	return state.StopItem{Owner: task.Owner, ID: id, ECSID: task.ECSID, Reason: "scaled in", Drain: true}
}

func (b *balanced) target(id string) *cluster.Target {
	b.t.Helper()
	row, err := b.store.Get(ctx, state.TargetKey(prod, b.service.Short, id))
	if err != nil {
		b.t.Fatal(err)
	}
	target, _ := row.(*cluster.Target)
	return target
}

// another returns a dispatch that has just started.
func (b *balanced) another() *dispatch.Handler {
	d := b.dispatch
	return &dispatch.Handler{
		State: b.store, ECS: b.ecs, LoadBalancers: b.elb, Registries: b.elb, Bus: d.Bus, Account: account,
		Clock: b.clock, Settings: d.Settings,
	}
}
