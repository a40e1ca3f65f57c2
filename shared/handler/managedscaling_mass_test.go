package handler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// timedCalls records when managed scaling drains instances, and when it answers lifecycle actions.
type timedCalls struct {
	handler.AutoScaling
	handler.ECS
	clock *manualClock
	at    map[string][]time.Time // by call and instance
	// described counts how often the groups were described: at least once for each look.
	described int
}

func (c *timedCalls) DescribeGroups(ctx context.Context, names []string) ([]*cluster.AutoScalingGroup, error) {
	c.described++
	return c.AutoScaling.DescribeGroups(ctx, names)
}

func (c *timedCalls) note(call, id string) {
	c.at[call+" "+id] = append(c.at[call+" "+id], c.clock.now)
}

func (c *timedCalls) DrainInstance(ctx context.Context, clusterName, id string) error {
	c.note("drain", id)
	return c.ECS.DrainInstance(ctx, clusterName, id)
}

func (c *timedCalls) CompleteLifecycleAction(ctx context.Context, group, hook, id string) error {
	c.note("complete", id)
	return c.AutoScaling.CompleteLifecycleAction(ctx, group, hook, id)
}

func (c *timedCalls) RecordHeartbeat(ctx context.Context, group, hook, id string) error {
	c.note("heartbeat", id)
	return c.AutoScaling.RecordHeartbeat(ctx, group, hook, id)
}

// most returns the highest number of calls within a second that begins with one.
func (c *timedCalls) most() (most int) {
	count := map[time.Time]int{}
	for _, times := range c.at {
		for _, at := range times {
			count[at]++
		}
	}
	for from := range count {
		n := 0
		for at, of := range count {
			if age := at.Sub(from); age >= 0 && age < time.Second {
				n += of
			}
		}
		most = max(most, n)
	}
	return most
}

// named returns how many instances a call was made for, and how many calls there were.
func (c *timedCalls) named(call string) (instances, calls int) {
	for key, times := range c.at {
		if strings.HasPrefix(key, call+" ") {
			instances, calls = instances+1, calls+len(times)
		}
	}
	return instances, calls
}

// newEnding is a world with a group of n instances.
func newEnding(t *testing.T, n int) (*driven, *timedCalls) {
	t.Helper()
	d := newDriven(t, nil)
	g := d.groups["g"]
	g.Min, g.Max, g.Desired = n, n, n
	d.minute(2)
	d.advance(time.Second) // since the last look
	c := &timedCalls{AutoScaling: d.fakeGroups, ECS: d.ecs, clock: d.clock, at: map[string][]time.Time{}}
	d.function.Groups, d.function.ECS = c, c
	g.Min, g.Desired = 0, 0
	return d, c
}

// endAll begins to terminate every instance, and delivers an event of each in batches of ten.
func (d *driven) endAll() {
	d.t.Helper()
	g := d.groups["g"]
	var batch []state.Message
	for n := range g.Instances {
		d.end(g, n)
		batch = append(batch, state.Message{ID: fmt.Sprint(n), Body: fmt.Appendf(nil, `{"source": "aws.autoscaling",
			"detail-type": "EC2 Instance-terminate Lifecycle Action", "detail": {"LifecycleActionToken": "t",
			"AutoScalingGroupName": "g", "LifecycleHookName": %q, "EC2InstanceId": %q,
			"LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING"}}`, cluster.DrainingHook, g.Instances[n].ID)})
		if len(batch) == 10 {
			wantCount(d.t, "events to deliver again", d.function.HandleMessages(ctx, batch), 0)
			batch = nil
		}
	}
}

// dueLooks returns the due rows that wake managed scaling.
func (d *driven) dueLooks() []*state.Due {
	return slices.DeleteFunc(rows[*state.Due](d.world, state.PrefixDue),
		func(row *state.Due) bool { return row.Kind != state.DueScaling })
}

// A thousand instances that end together cause one look and a due row for the next, not a look at
// all of them for each batch of events. Within a second at most 20 are drained or let go.
func TestManagedScaling_SpacesTerminations(t *testing.T) {
	const n = 1000
	d, calls := newEnding(t, n)
	d.endAll()
	due := d.dueLooks()
	if _, made := calls.named("drain"); made == 0 || made > 20 || len(due) != 1 {
		t.Errorf("%d drains and %d due rows after 100 batches of events, want 1 to 20 and one", made, len(due))
	}
	if calls.described > 2 {
		t.Errorf("100 batches of events described the group %d times, want one look", calls.described)
	}
	d.seconds(2*n/20 + 10) // drained and completed
	for _, call := range []string{"drain", "complete"} {
		instances, made := calls.named(call)
		want(t, call, fmt.Sprint(instances, " instances by ", made, " calls"), "1000 instances by 1000 calls")
	}
	if most := calls.most(); most > 20 {
		t.Errorf("%d calls within a second, want at most 20", most)
	}
}

// Instances that another lifecycle hook holds up do not keep the others from being let go: what
// worked is not repeated within a minute.
func TestManagedScaling_TerminationsThatOthersHoldUp(t *testing.T) {
	d, calls := newEnding(t, 50)
	d.overdue = map[string]bool{}
	for n, i := range d.groups["g"].Instances {
		if n < 40 {
			d.overdue[i.ID] = true
		}
	}
	d.endAll()
	d.seconds(20)
	instances, made := calls.named("complete")
	want(t, "within 20 seconds", fmt.Sprint(instances, " instances by ", made, " calls"), "50 instances by 50 calls")
	wantCount(t, "looks that are due", d.dueLooks(), 0)
	d.step() // ends the others
	d.advance(time.Minute)
	d.look(t)
	d.seconds(5)
	_, made = calls.named("complete")
	want(t, "calls after a minute", made, 90)
}

// Heartbeats are spaced as well, and every instance gets its own long before its hook would let it
// go.
func TestManagedScaling_SpacesHeartbeats(t *testing.T) {
	const n = 100
	d, calls := newEnding(t, n)
	for _, i := range d.groups["g"].Instances {
		late := d.ecs.add(cluster.ECSTask{Cluster: prod, Instance: "h-" + i.ID, TaskDefinition: "web:1"})
		d.ecs.report(late.ID, func(t *cluster.ECSTask) { t.Last = cluster.TaskRunning })
	}
	d.pump()
	d.endAll()
	d.seconds(10)
	drained, _ := calls.named("drain")
	want(t, "drained", drained, n)
	d.advance(29 * time.Minute)
	d.look(t)
	instances, _ := calls.named("heartbeat")
	want(t, "heartbeats after less than half an hour", instances, 0)
	d.advance(time.Minute)
	d.look(t)
	instances, _ = calls.named("heartbeat")
	want(t, "heartbeats of the first look", instances, 20)
	d.seconds(15)
	instances, made := calls.named("heartbeat")
	want(t, "heartbeats", fmt.Sprint(instances, " instances by ", made, " calls"), "100 instances by 100 calls")
	if most := calls.most(); most > 20 {
		t.Errorf("%d calls within a second, want at most 20", most)
	}
}

// failingHeartbeats are groups that take no heartbeat at first.
type failingHeartbeats struct {
	handler.AutoScaling
	left int // how many fail
}

func (f *failingHeartbeats) RecordHeartbeat(ctx context.Context, group, hook, id string) error {
	if f.left > 0 {
		f.left--
		return cluster.Errorf(cluster.CodeThrottling, "Rate exceeded")
	}
	return f.AutoScaling.RecordHeartbeat(ctx, group, hook, id)
}

// A heartbeat that fails is sent again at the next look: half an hour later the hook would end the instance with
// its tasks (C6).
func TestManagedScaling_SendsAFailedHeartbeatAgain(t *testing.T) {
	d, calls := newEnding(t, 1)
	d.function.Groups = &failingHeartbeats{AutoScaling: calls, left: 1}
	id := d.groups["g"].Instances[0].ID
	late := d.ecs.add(cluster.ECSTask{Cluster: prod, Instance: "h-" + id, TaskDefinition: "web:1"})
	d.ecs.report(late.ID, func(t *cluster.ECSTask) { t.Last = cluster.TaskRunning })
	d.pump()
	d.endAll()
	d.seconds(10)
	d.advance(31 * time.Minute)
	want(t, "error of a look", d.function.RunSchedule(ctx, "scaling") != nil, true)
	_, made := calls.named("heartbeat")
	want(t, "heartbeats at first", made, 0)
	d.advance(time.Minute)
	d.look(t)
	_, made = calls.named("heartbeat")
	want(t, "heartbeats a minute later", made, 1)
	d.advance(time.Minute)
	d.look(t)
	_, made = calls.named("heartbeat")
	want(t, "heartbeats after that", made, 1)
}
