package handler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/managedscaling"
)

// lateGroups is Auto Scaling whose next call about a target tracking policy or a lifecycle hook
// takes so long that something else happens meanwhile.
type lateGroups struct {
	handler.AutoScaling
	beforePut, beforeDelete, beforeHook func()
	deleteErr                           error
}

// callOnce calls *f, if there is one, and forgets it.
func callOnce(f *func()) {
	if call := *f; call != nil {
		*f = nil
		call()
	}
}

func (g *lateGroups) PutTrackingPolicy(c context.Context, p cluster.TrackingPolicy) error {
	callOnce(&g.beforePut)
	return g.AutoScaling.PutTrackingPolicy(c, p)
}

func (g *lateGroups) DeletePolicy(c context.Context, group, name string) error {
	if callOnce(&g.beforeDelete); g.deleteErr != nil {
		return g.deleteErr
	}
	return g.AutoScaling.DeletePolicy(c, group, name)
}

func (g *lateGroups) PutLifecycleHook(c context.Context, h cluster.LifecycleHook) error {
	callOnce(&g.beforeHook)
	return g.AutoScaling.PutLifecycleHook(c, h)
}

func (g *lateGroups) DeleteLifecycleHook(c context.Context, group, name string) error {
	callOnce(&g.beforeHook)
	return g.AutoScaling.DeleteLifecycleHook(c, group, name)
}

// A lateRound is a world with a provider that a target tracking policy sizes, and whose managed
// scaling makes late calls.
type lateRound struct {
	*scaled
	late *lateGroups
}

func newLateRound(t *testing.T) *lateRound {
	s := newScaled(t, func(p *cluster.CapacityProvider) { p.Tags = map[string]string{cluster.TagTargetTracking: "true"} })
	s.minute(2)
	r := &lateRound{scaled: s, late: &lateGroups{AutoScaling: s.function.Groups}}
	s.function.Groups = r.late
	return r
}

// other returns another environment, whose calls g makes.
func (r *lateRound) other(g handler.AutoScaling) *managedscaling.Handler {
	f := r.function
	return &managedscaling.Handler{State: f.State, ECS: f.ECS, Hosts: f.Hosts, Groups: g, Metrics: f.Metrics,
		Clock: f.Clock, Settings: f.Settings}
}

// lookInTime runs a round of another environment, whose calls are not late.
func (r *lateRound) lookInTime() {
	r.t.Helper()
	if err := r.other(r.late.AutoScaling).RunSchedule(ctx, "scaling"); err != nil {
		r.t.Fatal(err)
	}
}

// untrack removes the tag of target tracking, so that alarms size the group.
func (r *lateRound) untrack() {
	r.t.Helper()
	if err := r.api.CapacityProviders.TagCapacityProvider(ctx, "p", nil,
		[]string{cluster.TagTargetTracking}); err != nil {
		r.t.Fatal(err)
	}
}

// untilCalled runs minutes until a late call was made. Within an hour, everything is renewed.
func (r *lateRound) untilCalled(call *func()) {
	r.t.Helper()
	for minutes := 0; *call != nil; minutes++ {
		if minutes > 60 {
			r.t.Fatal("no call is late")
		}
		r.minute(1)
	}
}

// wantLeft compares what is left of alarms, policies and hooks.
func (r *lateRound) wantLeft(t *testing.T, alarms, policies, hooks int) {
	t.Helper()
	want(t, "alarms, policies and hooks", fmt.Sprint(len(r.alarms), len(r.policy), len(r.hooks)),
		fmt.Sprint(alarms, policies, hooks))
}

// A round whose calls take effect after those of others leaves what the settings ask for, one minute
// later (C1).
func TestManagedScaling_LateCalls(t *testing.T) {
	t.Run("PolicyAfterItsTagIsGone", func(t *testing.T) {
		r := newLateRound(t)
		r.late.beforePut = func() {
			r.untrack()
			r.lookInTime()
		}
		r.untilCalled(&r.late.beforePut)
		r.minute(1)
		r.wantLeft(t, 2, 0, 1)
	})
	t.Run("PolicyOfADetachedProvider", func(t *testing.T) {
		r := newLateRound(t)
		r.late.beforePut = func() {
			r.attach(t)
			r.lookInTime()
		}
		r.untilCalled(&r.late.beforePut)
		r.wantLeft(t, 0, 0, 0)
	})
	for name, writesMore := range map[string]bool{
		"RemovalAfterTheProviderIsThereAgain": false, "RemovalAtTheSameRevision": true,
	} {
		t.Run(name, func(t *testing.T) {
			r := newLateRound(t)
			r.late.beforeDelete = func() {
				r.lookInTime()
				r.attach(t, "p")
				r.lookInTime()
				if writesMore {
					r.groups["g"].ARN = "arn:2" // for one more write of the history
					r.lookInTime()
				}
			}
			r.attach(t)
			r.untilCalled(&r.late.beforeDelete)
			r.minute(1)
			r.wantLeft(t, 0, 1, 1)
		})
	}
	t.Run("ThereAgainDuringTheRemoval", func(t *testing.T) {
		r := newLateRound(t)
		r.late.beforePut = func() {
			r.attach(t)
			r.lookInTime()
			r.late.beforeDelete = func() {
				r.attach(t, "p")
				r.lookInTime()
			}
		}
		r.untilCalled(&r.late.beforePut)
		want(t, "the removal was late", r.late.beforeDelete == nil, true)
		r.minute(1)
		r.wantLeft(t, 0, 1, 1)
	})
	t.Run("RefusedRemoval", func(t *testing.T) {
		r := newLateRound(t)
		r.late.beforePut = func() {
			r.attach(t)
			r.lookInTime()
			r.late.deleteErr = errors.New("denied")
		}
		var err error
		for minutes := 0; r.late.beforePut != nil && minutes < 61; minutes++ {
			r.advance(time.Minute)
			err = r.function.RunSchedule(ctx, "scaling")
		}
		if err == nil || !strings.Contains(err.Error(), "denied") {
			t.Errorf("a removal that is denied ends with %v", err)
		}
	})
	t.Run("AnotherClusterOfTheName", func(t *testing.T) {
		r := newLateRound(t)
		r.ecs.clusters[prod] = false
		if err := r.api.Clusters.ClusterDeleted(ctx, prod); err != nil {
			t.Fatal(err)
		}
		r.late.beforeDelete = func() {
			r.lookInTime()
			r.ecs.clusters[prod] = true
			if err := r.api.Clusters.ClusterCreated(ctx, prod); err != nil {
				t.Fatal(err)
			}
			r.attach(t, "p")
			r.lookInTime()
		}
		r.untilCalled(&r.late.beforeDelete)
		r.minute(1)
		r.wantLeft(t, 0, 1, 1)
	})
	for name, change := range map[string]func(*lateRound, *testing.T){
		"BesideARoundThatDetaches": func(r *lateRound, t *testing.T) { r.attach(t) },
		"BesideARoundThatUntracks": func(r *lateRound, _ *testing.T) { r.untrack() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newLateRound(t)
			reached, release, ended := make(chan bool), make(chan bool), make(chan error)
			second := r.other(&lateGroups{AutoScaling: r.late.AutoScaling, beforeHook: func() {
				reached <- true // it has deleted the policy
				<-release
			}})
			r.late.beforePut = func() {
				change(r, t)
				go func() { ended <- second.RunSchedule(ctx, "scaling") }()
				<-reached
			}
			r.untilCalled(&r.late.beforePut)
			close(release)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			r.minute(1)
			if name == "BesideARoundThatDetaches" {
				r.wantLeft(t, 0, 0, 0)
			} else {
				r.wantLeft(t, 2, 0, 1)
			}
		})
	}
}
