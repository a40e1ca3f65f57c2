package handler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// driven is a world whose managed scaling runs only on wake-ups, never on a schedule.
type driven struct {
	*scaled
	queue *wakeQueue
	// lose drops a wake-up, late delays it, and copies are delivered in addition.
	lose   func(body string) bool
	late   time.Duration
	copies int
}

func newDriven(t *testing.T, change func(*cluster.CapacityProvider)) *driven {
	t.Helper()
	return drive(newScaled(t, change))
}

func drive(s *scaled) *driven {
	d := &driven{scaled: s, queue: &wakeQueue{t: s.t, clock: s.clock}}
	s.minute(1) // attaches the provider
	s.dispatch.Scaling = d.queue
	return d
}

// scalesOutAtOnce sets the tag of immediate scale-outs.
func scalesOutAtOnce(p *cluster.CapacityProvider) {
	p.Tags = map[string]string{cluster.TagScaleOut: "immediate"}
}

// seconds lets so many seconds pass, with every wake-up that falls due.
func (d *driven) seconds(n int) {
	d.t.Helper()
	for range n {
		d.advance(time.Second)
		var batch []state.Message
		for {
			m, ok := d.queue.take(d.clock.now.Add(-d.late))
			if !ok {
				break
			}
			if d.lose != nil && d.lose(string(m.body)) {
				continue
			}
			for copied := range 1 + d.copies {
				batch = append(batch, state.Message{ID: fmt.Sprint(len(batch), "/", copied), Body: m.body})
			}
		}
		for _, m := range batch { // one at a time: each is a look of its own
			if retry := d.function.HandleMessages(ctx, []state.Message{m}); len(retry) > 0 {
				d.t.Errorf("wake-up %s is to be delivered again", m.Body)
			}
			d.pump()
		}
	}
}

// requests returns the calls that set the desired capacity.
func (d *driven) requests() (calls []string) {
	for _, c := range d.calls {
		if strings.HasPrefix(c, "desired ") {
			calls = append(calls, c)
		}
	}
	return calls
}

// waitingTasks starts a standalone task for each count, which finds no instance.
func (d *driven) waitingTasks(counts ...int) {
	d.t.Helper()
	for _, n := range counts {
		d.run(d.t, operation.SubmitTasks{Count: n, Rules: cluster.Rules{
			Providers: []cluster.ProviderShare{{Provider: "p", Weight: 1}}}})
	}
	d.pump()
}

// What managed scaling waits for wakes it.
func TestManagedScaling_Woken(t *testing.T) {
	t.Run("ByATaskThatBeginsToWait", func(t *testing.T) {
		d := newDriven(t, scalesOutAtOnce)
		d.waitingTasks(1)
		d.seconds(3)
		want(t, "requests within 3 s", fmt.Sprint(d.requests()), "[desired 2]")
	})
	t.Run("ByAServicesTask", func(t *testing.T) {
		d := newDriven(t, scalesOutAtOnce)
		d.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(5)})
		d.pump()
		d.seconds(3)
		want(t, "requests within 3 s", fmt.Sprint(d.requests()), "[desired 2]")
	})
	t.Run("NotWithoutTheTag", func(t *testing.T) {
		d := newDriven(t, nil)
		d.waitingTasks(3)
		wantCount(t, "wake-ups", d.queue.messages, 0)
		d.minute(1)
		want(t, "requests of the minute", fmt.Sprint(d.requests()), "[desired 2]")
	})
	t.Run("OnceForTasksThatBeginTogether", func(t *testing.T) {
		d := newDriven(t, scalesOutAtOnce)
		d.groups["g"].Min, d.groups["g"].Desired = 1, 1
		d.minute(10)
		d.waitingTasks(4) // they fill the instance
		wantCount(t, "tasks that wait", d.with(cluster.TaskProvisioning), 0)
		for range 5 {
			d.waitingTasks(2)
			d.advance(400 * time.Millisecond)
		}
		d.seconds(4)
		want(t, "requests", fmt.Sprint(d.requests()), "[desired 4]")
	})
	t.Run("ByAnInstanceThatRegisters", func(t *testing.T) {
		d := newDriven(t, scalesOutAtOnce)
		d.waitingTasks(3)
		d.seconds(3)
		d.step() // both instances are launched and register
		d.seconds(2)
		wantCount(t, "running tasks", d.with(cluster.TaskRunning), 3)
	})
	t.Run("ByATaskThatLeavesADrainingInstance", func(t *testing.T) {
		d := newDriven(t, nil)
		d.groups["g"].Min, d.groups["g"].Desired = 1, 1
		d.minute(2)
		d.waitingTasks(1)
		gone := d.groups["g"].Instances[0].ID
		if err := d.TerminateInstance(ctx, gone, false); err != nil {
			t.Fatal(err)
		}
		d.look(t)
		d.pump()
		d.seconds(1)
		want(t, "completed while its task runs", slices.Contains(d.calls, "complete "+gone), false)
		d.ecs.exit(d.with(cluster.TaskRunning)[0].ECSID, 0)
		d.seconds(2)
		want(t, "completed", slices.Contains(d.calls, "complete "+gone), true)
	})
	t.Run("WhenAWarmupEnds", func(t *testing.T) {
		d := newDriven(t, scalesOutAtOnce)
		d.waitingTasks(10)
		d.seconds(3)
		d.step()
		d.seconds(int(cluster.DefaultScaling.Warmup/time.Second) - 5)
		want(t, "requests during the warm-up", fmt.Sprint(d.requests()), "[desired 2]")
		d.seconds(6)
		want(t, "requests", fmt.Sprint(d.requests()), "[desired 2 desired 3]")
	})
}

// A wake-up that is doubled, late or lost leads to the same size, and the schedule finds what a
// lost one would have (C3, C4).
func TestManagedScaling_WakeUpsMayFail(t *testing.T) {
	for name, fail := range map[string]func(*driven){
		"None":    func(*driven) {},
		"Doubled": func(d *driven) { d.copies = 2 },
		"Late":    func(d *driven) { d.late = 45 * time.Second },
		"Lost":    func(d *driven) { d.lose = func(string) bool { return true } },
		"LostForTasks": func(d *driven) {
			d.lose = func(body string) bool {
				return strings.Contains(body,
					"waiting")
			}
		},
		"LateAndTwice": func(d *driven) { d.late, d.copies = 90*time.Second, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriven(t, scalesOutAtOnce)
			fail(d)
			d.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(10)})
			d.pump()
			for range 12 {
				d.seconds(59)
				d.minute(1) // a second's tick and the minute's look
			}
			want(t, "requests", fmt.Sprint(d.requests()), "[desired 2 desired 3]")
			wantCount(t, "running tasks", d.with(cluster.TaskRunning), 10)
		})
	}
}
