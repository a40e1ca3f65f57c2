package handler_test

import (
	"context"
	"slices"
	"testing"

	"berth/shared/cluster"
	"berth/shared/embedded"
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
	d := newDriven(t, scalesOutAtOnce)
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
