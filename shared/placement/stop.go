package placement

import (
	"cmp"
	"math"
	"slices"

	"berth/shared/cluster"
)

// ChooseStops chooses Count of the candidates, all of the spec's owner, to stop (S5):
//
//   - first tasks that wait for an instance, then tasks not RUNNING yet, then the others
//   - under domain rules, tasks from domains with too many
//   - then, one after the other, the task from where the strategies would place one last: from the
//     fullest group of a spread, from the instance where binpack frees most, or at random
//   - then the youngest, then the lower id
//
// Candidates that have ended or are stopping already are skipped.
func (e *Engine) ChooseStops(r Request, candidates []*cluster.Task) []*cluster.Task {
	e.Sync()
	c := e.chooserAt(&r, 0)
	e.overlay.choosers = append(e.overlay.choosers, c)
	s := &stopSelection{chooser: c, request: &r, replacing: countReplacements(e, r.Spec.Owner)}
	var ranks [3][]*cluster.Task
	for _, t := range candidates {
		if t.IsActive() {
			ranks[stopPhase(t)] = append(ranks[stopPhase(t)], t)
		}
	}
	for _, tasks := range ranks {
		if n := min(r.Count-len(s.chosen), len(tasks)); n > 0 {
			s.selectTasks(tasks, n)
		}
	}
	undoPlacements(e, r.Spec)
	return s.chosen
}

// stopPhase returns 0 for the tasks that stop first and 2 for those that stop last.
func stopPhase(t *cluster.Task) int {
	switch {
	case t.IsProvisioning():
		return 0
	case t.Last != cluster.TaskRunning:
		return 1
	}
	return 2
}

// A stopSelection carries out one call of [Engine.ChooseStops]. Chosen tasks are off their
// instances for the rest of the call.
type stopSelection struct {
	chooser *chooser
	request *Request
	chosen  []*cluster.Task
	// replacing counts the replacements that have arrived, by the id of the task that they replace.
	replacing    map[string]int
	needsReorder bool // a choice changed what counts on another instance
}

// stopCandidates are the candidates on one instance, in the order in which they stop.
type stopCandidates struct {
	instance int32 // -1 if unknown, or none
	region   int32 // -1 if the instance is in none
	tasks    []*cluster.Task
}

// selectTasks chooses n of the tasks. Within a region, groups and domain rules count the same for
// all instances, except for those whose tasks are all replaced: only the first of either kind has
// to be compared with those of the other regions.
func (s *stopSelection) selectTasks(tasks []*cluster.Task, n int) {
	queues := s.groupByRegion(s.groupByInstance(tasks))
	for range n {
		var best *queue[*stopCandidates]
		least := 0
		for _, q := range queues {
			if len(q.items) == 0 {
				continue
			}
			here := q.top()
			worth := s.domainRank(here)
			if best == nil || worth < least || worth == least && s.compareCandidates(here, best.top()) < 0 {
				best, least = q, worth
			}
		}
		here := best.top()
		wasReplaced := s.isReplaced(here)
		s.stopNextTask(here)
		if len(here.tasks) > 0 {
			best.fixTop()
		} else {
			best.popTop()
		}
		if s.needsReorder || len(here.tasks) > 0 && s.isReplaced(here) != wasReplaced {
			s.needsReorder = false // the tasks of an instance count differently now
			var rest []*stopCandidates
			for _, q := range queues {
				rest = append(rest, q.items...)
			}
			queues = s.groupByRegion(rest)
		}
	}
}

// isReplaced reports whether all tasks there are replaced already: to the domain rules it is as if
// they had stopped.
func (s *stopSelection) isReplaced(here *stopCandidates) bool {
	return s.chooser.domains != nil && here.region >= 0 && s.chooser.limited.active.Of(here.instance) == 0
}

// groupByInstance groups the tasks by instance, in the order of the first one of each.
func (s *stopSelection) groupByInstance(tasks []*cluster.Task) (out []*stopCandidates) {
	byInstance := map[string]*stopCandidates{}
	for _, t := range tasks {
		here := byInstance[t.Instance]
		if here == nil {
			here = s.newCandidates(t.Instance)
			byInstance[t.Instance] = here
			out = append(out, here)
		}
		here.tasks = append(here.tasks, t)
	}
	for _, here := range out {
		slices.SortFunc(here.tasks, func(a, b *cluster.Task) int {
			if here.region < 0 {
				return s.compareTasks(a, b)
			}
			return cmp.Or(s.compareNeeds(a, b), s.compareTasks(a, b))
		})
	}
	return out
}

// groupByRegion groups the instances by region, apart from those whose tasks are all replaced.
func (s *stopSelection) groupByRegion(candidates []*stopCandidates) (out []*queue[*stopCandidates]) {
	type kind struct {
		region   int32
		replaced bool
	}
	queues := map[kind]*queue[*stopCandidates]{}
	for _, here := range candidates {
		key := kind{here.region, s.isReplaced(here)}
		q := queues[key]
		if q == nil {
			q = &queue[*stopCandidates]{less: func(a, b *stopCandidates) bool { return s.compareCandidates(a, b) < 0 }}
			queues[key] = q
			out = append(out, q)
		}
		q.items = append(q.items, here)
	}
	for _, q := range out {
		q.heapify()
	}
	return out
}

// newCandidates returns an instance without candidates.
func (s *stopSelection) newCandidates(id string) *stopCandidates {
	here := &stopCandidates{instance: -1, region: -1}
	if v := s.chooser.engine.snap.Instances[id]; v != nil {
		here.instance = int32(v.Index)
		if s.chooser.engine.inCluster[v.Index] {
			here.region = s.chooser.regionMap.regionOf[v.Index]
		}
	}
	return here
}

// domainRank returns what the domain rules lose with a task there: the lowest rank stops first.
func (s *stopSelection) domainRank(here *stopCandidates) int {
	if s.chooser.domains == nil || here.region < 0 {
		return 0
	}
	if s.isReplaced(here) {
		fault, upgrade := s.chooser.domains.Excess()
		return 2*(fault+upgrade) + 1
	}
	return s.chooser.domains.StopRank(int(here.instance))
}

// compareCandidates is negative if the next task should stop on a rather than on b.
func (s *stopSelection) compareCandidates(a, b *stopCandidates) int {
	for at := range s.chooser.order.preferences {
		p := &s.chooser.order.steps[at]
		if x, y := s.stepValue(p, a), s.stepValue(p, b); x != y {
			return cmp.Compare(y, x)
		}
	}
	return s.compareTasks(a.tasks[0], b.tasks[0])
}

// stepValue returns what the order's step would compare after the instance's next task has stopped.
func (s *stopSelection) stepValue(p *step, here *stopCandidates) int64 {
	c := s.chooser
	switch {
	case p.kind == byCount && here.instance >= 0:
		return int64(c.counts.active.Of(here.instance))
	case p.kind == byCount:
		return 0
	case here.region < 0:
		return math.MinInt64 // unknown instance: last to stop
	}
	free := c.stepValue(p, here.instance, here.region)
	switch p.field {
	case freeCPU:
		free += here.tasks[0].Needs.CPU
	case freeMemory:
		free += here.tasks[0].Needs.Memory
	}
	return free
}

// compareNeeds orders the tasks of one instance by what they free, if binpack counts that.
func (s *stopSelection) compareNeeds(a, b *cluster.Task) int {
	c := s.chooser
	for _, p := range c.order.steps[:c.order.preferences] {
		if p.field == freeCPU && a.Needs.CPU != b.Needs.CPU {
			return cmp.Compare(b.Needs.CPU, a.Needs.CPU)
		}
		if p.field == freeMemory && a.Needs.Memory != b.Needs.Memory {
			return cmp.Compare(b.Needs.Memory, a.Needs.Memory)
		}
	}
	return 0
}

// compareTasks orders tasks whose instances are equal: by chance if the strategy asks for it, or
// the younger first.
func (s *stopSelection) compareTasks(a, b *cluster.Task) int {
	chance := 0
	if s.chooser.order.random {
		chance = cmp.Compare(chanceKey(s.request.Seed, 0, hashInstanceID(a.ID)),
			chanceKey(s.request.Seed, 0, hashInstanceID(b.ID)))
	}
	return cmp.Or(chance, b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
}

// stopNextTask chooses the next task of the instance. A task and its replacement count as one:
// after one of them stops, the other still counts.
func (s *stopSelection) stopNextTask(here *stopCandidates) {
	t := here.tasks[0]
	here.tasks = here.tasks[1:]
	s.chosen = append(s.chosen, t)
	if here.instance >= 0 {
		if s.replacing[t.ID] > 0 {
			s.chooser.countInOverlay(int(here.instance), 1) // as it is replaced, it did not count
		}
		s.chooser.removeFromOverlay(int(here.instance), t)
	}
	if t.Replaces == "" || !t.HoldsCapacity() {
		return
	}
	s.replacing[t.Replaces]--
	old := s.chooser.engine.snap.Task(t.Owner, t.Replaces)
	if s.replacing[t.Replaces] > 0 || old == nil || !old.IsActive() || !old.HoldsCapacity() ||
		slices.Contains(s.chosen, old) ||
		!s.chooser.counts.includesTask(old) {
		return
	}
	s.chooser.countInOverlay(s.chooser.engine.snap.Instances[old.Instance].Index, 1)
	s.needsReorder = true
}

// countReplacements counts the owner's replacements that have arrived, by the id of the task that
// they replace.
func countReplacements(e *Engine, owner string) map[string]int {
	out := map[string]int{}
	for _, t := range e.snap.TasksOf(owner) {
		if t.Replaces != "" && t.IsActive() && t.HoldsCapacity() {
			out[t.Replaces]++
		}
	}
	return out
}
