package handler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/managedscaling"
	"berth/shared/state"
)

// What was made for a provider is made again if somebody removed it (C1, C6).
func TestManagedScaling_RestoresAttachments(t *testing.T) {
	tracking := func(p *cluster.CapacityProvider) { p.Tags = map[string]string{cluster.TagTargetTracking: "true"} }
	t.Run("RestoresWhatSomebodyDeleted", func(t *testing.T) {
		for name, change := range map[string]func(*cluster.CapacityProvider){"Alarms": nil, "Policy": tracking} {
			t.Run(name, func(t *testing.T) {
				s := newScaled(t, change)
				s.minute(2)
				made := len(s.hooks) + len(s.alarms) + len(s.policy)
				clear(s.hooks)
				clear(s.alarms)
				clear(s.policy)
				s.minute(60)
				want(t, "hooks, alarms and policies", len(s.hooks)+len(s.alarms)+len(s.policy), made)
			})
		}
	})
	t.Run("RemovesWhatALateCallMade", func(t *testing.T) {
		alarmed, tracked := newScaled(t, nil), newScaled(t, tracking)
		alarmed.minute(2)
		tracked.minute(2)
		maps.Copy(alarmed.policy, tracked.policy)
		maps.Copy(tracked.alarms, alarmed.alarms)
		alarmed.minute(60)
		tracked.minute(60)
		want(t, "alarms and policies", fmt.Sprint(len(alarmed.alarms), len(alarmed.policy)), "2 0")
		want(t, "alarms and policies", fmt.Sprint(len(tracked.alarms), len(tracked.policy)), "0 1")
	})
	t.Run("OnceAnHour", func(t *testing.T) {
		s := newScaled(t, nil)
		s.minute(70)
		before := s.puts
		s.minute(10 * 60)
		want(t, "puts in ten hours", s.puts-before, 10*3)
	})
	t.Run("InAGroupMadeAnew", func(t *testing.T) {
		for name, seen := range map[string]bool{"ThatWasSeenToBeGone": true, "Unseen": false} {
			t.Run(name, func(t *testing.T) {
				s := newScaled(t, nil)
				g := s.groups["g"]
				g.ARN = "arn:1"
				s.minute(2)
				delete(s.groups, "g")
				delete(s.hooks, "g") // it went with the group
				next := &cluster.AutoScalingGroup{Name: "g", ARN: "arn:1", Max: g.Max, Protects: true}
				if seen {
					for range 2 {
						if s.function.RunSchedule(ctx, "scaling") == nil {
							t.Fatal("nothing is said of a group that is gone")
						}
						want(t, "status", s.status(t), cluster.AttachmentsFailed)
					}
				} else {
					next.ARN = "arn:2"
				}
				s.groups["g"] = next
				s.look(t)
				want(t, "hooks", len(s.hooks), 1)
				want(t, "status", s.status(t), cluster.AttachmentsComplete)
				want(t, "puts", s.puts, 6)
				s.minute(1)
				want(t, "puts a minute later", s.puts, 6)
			})
		}
	})
	t.Run("LeavesUnwantedTasksAlone", func(t *testing.T) {
		s := newScaled(t, func(p *cluster.CapacityProvider) {
			p.Protection, p.Draining, p.Scaling.Enabled = false,
				false, false
		})
		s.minute(int(2 * time.Hour / time.Minute))
		want(t, "puts", s.puts, 0)
	})
}

// interruptedStore runs something just before or after one of its reads: of the histories, which are
// read with the tasks, or of the node groups, which are read last.
type interruptedStore struct {
	state.Store
	before, after func(from string)
}

func (s interruptedStore) List(c context.Context, r state.Range) ([]state.Row, error) {
	s.before(r.From)
	rows, err := s.Store.List(c, r)
	s.after(r.From)
	return rows, err
}

// newWaiting returns a group with one instance, which is full, and the wake-up for the tasks that wait.
func newWaiting(t *testing.T) (*driven, []state.Message) {
	d := newDriven(t, scalesOutAtOnce)
	d.groups["g"].Min, d.groups["g"].Desired = 1, 1
	d.minute(10)
	d.waitingTasks(4, 6) // the first four fill the instance
	d.advance(2 * time.Second)
	return d, []state.Message{{ID: "1", Body: []byte(`{"cluster": "` + prod + `", "cause": "waiting"}`)}}
}

// anotherRound returns the function as another environment has it, on that state and those groups.
func anotherRound(
	first *managedscaling.Handler, store state.Store, groups handler.AutoScaling,
) *managedscaling.Handler {
	return &managedscaling.Handler{State: store, ECS: first.ECS, Hosts: first.Hosts, Groups: groups,
		Metrics: first.Metrics, Clock: first.Clock, Settings: first.Settings}
}

// Two rounds about the same group at the same time change it once, whichever of the first one's reads
// the second one runs beside: only one can write the history that both have read, and one that reads
// the other's history sees that the group has changed (C3).
func TestManagedScaling_RoundsAtTheSameTime(t *testing.T) {
	for _, from := range []string{state.PrefixInstance, state.PrefixScaling, state.PrefixNodeGroup} {
		for name, isAfter := range map[string]bool{"Before": false, "After": true} {
			t.Run(name+"Reading"+strings.TrimSuffix(from, "#"), func(t *testing.T) {
				d, wakeUp := newWaiting(t)
				store, interrupted := d.function.State, 0
				interrupt := func(now bool) func(string) {
					return func(at string) {
						if at == from && now && interrupted == 0 {
							interrupted++
							first := d.function
							anotherRound(first, store, first.Groups).HandleMessages(ctx, wakeUp)
						}
					}
				}
				d.function.State = interruptedStore{store, interrupt(!isAfter), interrupt(isAfter)}
				d.function.HandleMessages(ctx, wakeUp)
				want(t, "interruptions", interrupted, 1)
				want(t, "requests", fmt.Sprint(d.requests()), "[desired 3]")
			})
		}
	}
}

// overtakenGroups are groups whose first call of SetDesired arrives late: something else happens before it.
type overtakenGroups struct {
	handler.AutoScaling
	before func()
}

func (g *overtakenGroups) SetDesired(ctx context.Context, group string, n int) error {
	if before := g.before; before != nil {
		g.before = nil
		before()
	}
	return g.AutoScaling.SetDesired(ctx, group, n)
}

// Where two rounds overlap so closely that the older one's size arrives last, the first look after
// the warm-up of instances, of five minutes, puts it right: Auto Scaling has no conditional call.
func TestManagedScaling_AnOlderSizeThatArrivesLast(t *testing.T) {
	d, wakeUp := newWaiting(t)
	first, groups := d.function, d.function.Groups
	first.Groups = &overtakenGroups{groups, func() {
		d.waitingTasks(8)
		anotherRound(first, first.State, groups).HandleMessages(ctx, wakeUp)
	}}
	first.HandleMessages(ctx, wakeUp)
	want(t, "requests", fmt.Sprint(d.requests()), "[desired 5 desired 3]")
	d.minute(6)
	want(t, "requests after the warm-up", fmt.Sprint(d.requests()), "[desired 5 desired 3 desired 5]")
}

// withoutEvents is a store that takes no service events at first.
type withoutEvents struct {
	state.Store
	left int // how many commits with an event fail
}

func (f *withoutEvents) Commit(ctx context.Context, c state.Commit) error {
	for _, w := range c.Writes {
		if _, ok := w.Put.(*cluster.ServiceEvent); ok && f.left > 0 {
			f.left--
			return errors.New("cut off")
		}
	}
	return f.Store.Commit(ctx, c)
}

// What managed scaling says once is said though it is cut off before it does so (C2).
func TestManagedScaling_SaysLaterWhatItCouldNot(t *testing.T) {
	s, _ := newSized(t)
	s.function.State = &withoutEvents{Store: s.store, left: 1}
	s.createBig()
	s.pump()
	for n := range 10 {
		err := s.function.RunSchedule(ctx, "scaling")
		want(t, fmt.Sprint("error of look ", n), err != nil, n == 0)
		s.advance(time.Minute)
	}
	want(t, "events", s.ignored("not even the largest, t3.small: insufficient"), 1)
}
