package replay

import (
	"context"
	"fmt"
	"strings"

	"berth/cmd/berth/installation"
	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/state"
)

// scan is an independent look at the rows, for checks: it shares no code with placement.
type scan struct {
	free  []*slack
	index map[string]*slack
}

// slack is what an instance has left.
type slack struct {
	id, model   string
	cpu, memory int64
	gpus        []int
}

// NobodyWaitsInVain is a [Options.Check]: a full scan finds no instance that could hold a task that
// waits.
func NobodyWaitsInVain(i *installation.Installation) error {
	ctx := context.Background()
	s := scan{index: map[string]*slack{}}
	rows, err := i.Store.List(ctx, state.Prefix(clusterName, state.PrefixInstance))
	if err != nil {
		return err
	}
	for _, row := range rows {
		if in, ok := row.(*cluster.Instance); ok && in.IsAvailable() {
			s.add(in)
		}
	}
	tasks, err := i.Store.List(ctx, state.Prefix(clusterName, state.PrefixTask))
	if err != nil {
		return err
	}
	waiting := map[wish]string{}
	for _, row := range tasks {
		t, ok := row.(*cluster.Task)
		if !ok {
			continue
		}
		if t.HoldsCapacity() {
			s.take(t)
		}
		if t.IsProvisioning() {
			waiting[wishOf(t)] = t.StartedByUser
		}
	}
	for w, task := range waiting {
		if id := s.room(w); id != "" {
			return fmt.Errorf("at %s task %s (%+v) waits, and instance %s could hold it", i.Loop.Now(), task, w, id)
		}
	}
	return nil
}

// wish is what a task waits for: room, and GPUs of one of the models that the text names in quotes,
// any where it is empty.
type wish struct {
	cluster.Resources
	models string
}

func wishOf(t *cluster.Task) wish {
	w := wish{Resources: t.Needs}
	if t.Rules != nil && len(t.Rules.Constraints) > 0 {
		w.models = t.Rules.Constraints[0].Expression
	}
	return w
}

func (s *scan) add(in *cluster.Instance) {
	f := &slack{id: in.ID, model: in.Attributes[trace.ModelAttribute], cpu: in.Registered.CPU,
		memory: in.Registered.Memory, gpus: make([]int, len(in.Registered.GPUs))}
	for g := range f.gpus {
		f.gpus[g] = 1000
	}
	s.free = append(s.free, f)
	s.index[in.ID] = f
}

func (s *scan) take(t *cluster.Task) {
	f := s.index[t.Instance]
	if f == nil {
		return
	}
	f.cpu -= t.Needs.CPU
	f.memory -= t.Needs.Memory
	for _, g := range t.GPUs {
		f.gpus[g] -= share(t.Needs)
	}
}

func share(needs cluster.Resources) int {
	if needs.GPUMilli == 0 {
		return 1000
	}
	return int(needs.GPUMilli)
}

func (s *scan) room(w wish) string {
	needs := w.Resources
	for _, f := range s.free {
		if w.models != "" && !strings.Contains(w.models, "'"+f.model+"'") {
			continue
		}
		free := 0
		for _, g := range f.gpus {
			if g >= share(needs) {
				free++
			}
		}
		if f.cpu >= needs.CPU && f.memory >= needs.Memory && free >= needs.GPUs {
			return f.id
		}
	}
	return ""
}
