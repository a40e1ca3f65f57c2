package handler_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/state"
)

// listedState notes where each list begins.
type listedState struct {
	*embedded.Store
	from []string
}

func (s *listedState) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	s.from = append(s.from, r.From)
	return s.Store.List(ctx, r)
}

// take returns how often instances and tasks were listed since it was called last.
func (s *listedState) take() (instances, tasks int) {
	for _, from := range s.from {
		switch from {
		case state.PrefixInstance:
			instances++
		case state.PrefixTask:
			tasks++
		}
	}
	s.from = nil
	return instances, tasks
}

// What a look costs does not grow with a cluster in which nothing happens (docs/cloud.md, "What an idle
// installation costs").
func TestManagedScaling_ReadsWhatHasChanged(t *testing.T) {
	d := drive(newScaledIn(newWorld(t), scalesOutAtOnce)) // too small for change sets
	d.groups["g"].Min, d.groups["g"].Desired = 1, 1
	d.minute(10)
	spy := &listedState{Store: d.store}
	d.function.State = spy
	d.minute(1) // from here on nothing changes
	spy.take()
	d.minute(5)
	if instances, tasks := spy.take(); instances+tasks > 0 {
		t.Errorf("an idle cluster's instances were read %d times, its tasks %d times", instances, tasks)
	}
	d.minute(40)
	if instances, tasks := spy.take(); instances != 1 || tasks != 1 {
		t.Errorf("in 40 minutes instances were read %d times, tasks %d times, want once in 30", instances, tasks)
	}

	of := d.groups["g"].Instances[0].ID
	var id string
	for _, i := range rows[*cluster.Instance](d.world, state.PrefixInstance) {
		if i.EC2InstanceID == of {
			id = i.ID
		}
	}
	if err := d.ecs.DrainInstance(ctx, prod, id); err != nil {
		t.Fatal(err)
	}
	d.pump() // placement handles the event
	d.minute(1)
	if instances, _ := spy.take(); instances == 0 {
		t.Error("an instance was drained, and instances were not read again")
	}

	d.waitingTasks(1)
	d.placementAsleep = true
	spy.take()
	d.seconds(3)
	if !slices.Contains(spy.from, state.PrefixInstance) {
		t.Error("a wake-up did not make it read the instances, though their change may have caused it")
	}
}

// readTwice has two worlds with the same history. One writes change sets, so that its managed scaling
// seldom reads everything; the other writes none.
type readTwice struct {
	changes, whole *scaled
	spy            *listedState
}

func newReadTwice(t *testing.T) *readTwice {
	in := func(from int) *scaled {
		s := newScaledIn(newWorld(t, func(s *handler.Settings) { s.ChangeSetsFrom = from }), nil)
		s.groups["g"].Min, s.groups["g"].Desired = 1, 1
		n := 1
		s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
		return s
	}
	r := &readTwice{changes: in(0), whole: in(math.MaxInt)}
	r.spy = &listedState{Store: r.changes.store}
	r.changes.function.State = r.spy
	r.do(func(s *scaled) { s.minute(10) })
	r.spy.take()
	return r
}

func (r *readTwice) do(step func(*scaled)) {
	step(r.changes)
	step(r.whole)
}

// From change sets managed scaling decides what it would decide if it read everything (docs/cloud.md).
func TestManagedScaling_DecidesAlikeFromChangeSets(t *testing.T) {
	for seed := range uint64(20) {
		r, rng := newReadTwice(t), rand.New(rand.NewPCG(seed, 0))
		looks, tasks := 0, 0
		for range 40 {
			switch n, minutes := rng.IntN(12), 1+rng.IntN(3); rng.IntN(5) {
			case 0:
				r.do(func(s *scaled) { s.scale("web", n) })
			case 1:
				r.do(func(s *scaled) {
					s.run(s.t, operation.SubmitTasks{Count: 1 + n%3, Rules: cluster.Rules{
						Providers: []cluster.ProviderShare{{Provider: "p", Weight: 1}}}})
				})
			case 2:
				r.do(func(s *scaled) {
					if live := s.ecs.live(); len(live) > 0 {
						s.ecs.exit(live[n%len(live)], 0)
					}
				})
			case 3:
				r.do(func(s *scaled) {
					ids := slices.Sorted(maps.Keys(s.ecs.instances))
					if err := s.ecs.DrainInstance(ctx, prod, ids[n%len(ids)]); err != nil {
						t.Fatal(err)
					}
				})
			default:
				r.do(func(s *scaled) { s.minute(minutes) })
				looks += minutes
				_, read := r.spy.take()
				tasks += read
			}
			r.do(func(s *scaled) { s.pump() })
			if a, b := r.changes.summarize(), r.whole.summarize(); a != b {
				t.Fatalf("seed %d: from change sets\n%s\nfrom everything\n%s", seed, a, b)
			}
		}
		if tasks > 1+looks/4 {
			t.Errorf("seed %d: in %d looks all tasks were read %d times", seed, looks, tasks)
		}
	}
}

// summarize returns what managed scaling has done.
func (s *scaled) summarize() string {
	return fmt.Sprint(s.calls, s.points, s.groups["g"].Desired, s.groups["g"].Instances)
}

// What a look costs does not grow with a cluster in which something happens all the time, and a task that
// waits is seen at once.
func TestManagedScaling_ReadsNoTasksTwice(t *testing.T) {
	r := newReadTwice(t)
	s := r.changes
	for n := range 20 {
		s.scale("web", 2+n%2)
		s.minute(1)
	}
	if instances, tasks := r.spy.take(); instances+tasks > 0 {
		t.Errorf("in 20 minutes all instances were read %d times, all tasks %d times", instances, tasks)
	}
	before := s.groups["g"].Desired
	s.scale("web", 9)
	s.pump()
	s.minute(1)
	if s.groups["g"].Desired <= before {
		t.Error("tasks wait, and the group is not scaled out")
	}
	if _, tasks := r.spy.take(); tasks > 0 {
		t.Error("tasks wait, and all tasks were read")
	}
}

// A change set that is missing, or that omits its rows, makes managed scaling read everything.
func TestManagedScaling_ReadsAllAfterAGap(t *testing.T) {
	for name, change := range map[string]func(*scaled){
		"NoSet": func(s *scaled) {
			for _, set := range rows[*state.ChangeSet](s.world, state.PrefixChangeSet) {
				key := state.KeyOf(set)
				if _, err := s.store.Write(ctx, state.Write{Delete: &key}); err != nil {
					t.Fatal(err)
				}
			}
		},
		"Omitted": func(s *scaled) {
			sets := rows[*state.ChangeSet](s.world, state.PrefixChangeSet)
			last := *sets[len(sets)-1]
			last.Packed, last.Omitted = "", true
			if _, err := s.store.Write(ctx, state.Write{Put: &last, Any: true}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReadTwice(t)
			s := r.changes
			before := s.groups["g"].Desired
			s.scale("web", 9)
			s.pump()
			s.advance(time.Minute)
			change(s)
			s.look(t)
			if _, tasks := r.spy.take(); tasks != 1 {
				t.Errorf("all tasks were read %d times, want once", tasks)
			}
			if s.groups["g"].Desired <= before {
				t.Error("tasks wait, and the group is not scaled out")
			}
		})
	}
}

// Sets of a cluster that had the name before are not applied to the one that has it now.
func TestManagedScaling_ClusterCreatedAgain(t *testing.T) {
	s := newScaled(t, nil)
	s.minute(1)
	n := 3
	s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
	s.minute(8)
	for k := range 10 {
		s.scale("web", 2+k%2)
		s.minute(1)
	}
	if _, err := s.api.Services.DeleteService(ctx, prod, "web", true); err != nil {
		t.Fatal(err)
	}
	s.pump()
	s.minute(1)
	s.ecs.clusters[prod] = false
	if err := s.api.Clusters.ClusterDeleted(ctx, prod); err != nil {
		t.Fatal(err)
	}
	s.decide, s.act = nil, nil
	s.look(t)
	clear(s.ecs.instances)
	s.groups["g"].Instances, s.groups["g"].Desired = nil, 0
	if rows[*state.ChangeSet](s.world, state.PrefixChangeSet) == nil {
		t.Fatal("no set of the old cluster is left")
	}

	s.placement = s.newPlacement("env-2", handler.DefaultSettings()) // the new cluster is too small for sets
	s.ecs.clusters[prod] = true
	if err := s.api.Clusters.ClusterCreated(ctx, prod); err != nil {
		t.Fatal(err)
	}
	s.attach(t, "p")
	s.minute(2)
	n = 1
	s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
	s.minute(6)
	s.scale("web", 12)
	s.minute(15)
	wantCount(t, "tasks that wait", s.with(cluster.TaskProvisioning), 0)
}
