package placement

import (
	"cmp"
	"strings"

	"berth/shared/cluster"
)

// An order compares feasible instances, after the buffer: step by step, and the first difference
// decides (S2, S3).
type order struct {
	attributes []string // that tasks are spread over, the outermost first
	steps      []step
	// preferences is how many of the steps are strategies. The last step is how well a task fits.
	preferences    int
	countsOwnTasks bool // a step compares the owner's tasks on the instance
	// groupsFirst: no step that compares groups follows one that does not. Then the counts of
	// groups alone can rule out a region.
	groupsFirst bool
	// countsFirst: the owner's tasks are compared before anything else that differs within a
	// region. Then instances without any come first, and owners can share an index.
	countsFirst bool
	random      bool // chance decides what the steps leave equal, otherwise the lower id
	scorer      scorer
}

// A step compares one number of two instances. The lowest is the best.
type step struct {
	name  string
	kind  stepKind
	level int
	field usageField
}

type stepKind uint8

const (
	byGroup  stepKind = iota // the owner's tasks in the instance's group of the level
	byCount                  // the owner's tasks on the instance
	byColumn                 // a column of the engine
	byScore                  // what the scorer returns
)

// newPlacementOrder translates the spec's strategies into steps. Each spread counts within the
// groups of the spreads before it. After a spread over instances no further spread can decide
// anything.
func newPlacementOrder(e *Engine, spec *Spec) order {
	o := order{countsFirst: true, groupsFirst: true}
	for _, s := range strategiesOf(spec) {
		switch {
		case s.Type == cluster.StrategyRandom:
			o.random, o.preferences = true, len(o.steps)
			return o
		case s.Type == cluster.StrategyBinpack && strings.EqualFold(s.Field, "cpu"):
			o.addStep(step{name: "free CPU", kind: byColumn, field: freeCPU})
		case s.Type == cluster.StrategyBinpack:
			o.addStep(step{name: "free memory", kind: byColumn, field: freeMemory})
		case o.countsOwnTasks:
		case strings.HasPrefix(s.Field, attributePrefix):
			name := strings.TrimPrefix(s.Field, attributePrefix)
			o.addStep(step{name: "tasks in " + name, kind: byGroup, level: len(o.attributes)})
			o.attributes = append(o.attributes, name)
		default: // instanceId or host
			o.addStep(step{name: "tasks on the instance", kind: byCount})
		}
	}
	o.preferences = len(o.steps)
	if spec.IsGoverned() && len(spec.Strategies) == 0 {
		o.addStep(step{name: "all tasks on the instance", kind: byColumn, field: allTasks})
	}
	if o.scorer = scorerByName(e, spec.Scoring); o.scorer != nil {
		o.addStep(step{name: spec.Scoring, kind: byScore})
	} else {
		o.addStep(step{name: "room left", kind: byColumn, field: roomLeft})
	}
	return o
}

// addStep appends a step and notes what the order can no longer be used for.
func (o *order) addStep(s step) {
	if s.kind == byCount {
		o.countsOwnTasks = true
	} else if s.kind != byGroup && !o.countsOwnTasks {
		o.countsFirst = false
	}
	if s.kind == byGroup && len(o.steps) > 0 && o.steps[len(o.steps)-1].kind != byGroup {
		o.groupsFirst = false
	}
	o.steps = append(o.steps, s)
}

const attributePrefix = "attribute:"

// spreadByDefault is the order of specs with neither a strategy nor a scoring nor a domain policy
// (S2): the zone with the fewest tasks, and in it the instance with the fewest.
var spreadByDefault = []cluster.PlacementStrategy{
	{Type: cluster.StrategySpread, Field: attributePrefix + cluster.AttributeZone},
	{Type: cluster.StrategySpread, Field: "instanceId"},
}

func strategiesOf(spec *Spec) []cluster.PlacementStrategy {
	if len(spec.Strategies) == 0 && spec.Scoring == "" && !spec.IsGoverned() {
		return spreadByDefault
	}
	return spec.Strategies
}

// A rankedInstance is an instance with its region and feasibility, as compared by
// [chooser.compareRanked].
type rankedInstance struct {
	instance, region int32
	feasibility      feasibility // [infeasible] for no instance
}

// noInstance loses every comparison.
var noInstance = rankedInstance{instance: -1, region: -1}

// compareRanked is negative if a task prefers a to b. It is zero only if chance is to decide.
func (c *chooser) compareRanked(a, b rankedInstance) int {
	if a.feasibility != b.feasibility {
		return cmp.Compare(a.feasibility, b.feasibility)
	}
	for at := range c.order.steps {
		s := &c.order.steps[at]
		x, y := c.stepValue(s, a.instance, a.region), c.stepValue(s, b.instance, b.region)
		if x != y {
			return cmp.Compare(x, y)
		}
	}
	switch {
	case c.order.random || a.instance == b.instance:
		return 0
	case c.engine.hasLowerID(a.instance, b.instance):
		return -1
	}
	return 1
}

// isBetterThan reports whether a task can go to a, and prefers it to b.
func (c *chooser) isBetterThan(a, b rankedInstance) bool {
	return a.instance >= 0 && c.acceptsFeasibility(a.feasibility) && (b.instance < 0 || c.compareRanked(a, b) < 0)
}

// stepValue returns what the step compares of an instance in a region.
func (c *chooser) stepValue(s *step, i, r int32) int64 {
	switch s.kind {
	case byGroup:
		return c.groupCounts.counts[s.level][c.regionMap.regions[r].groups[s.level]]
	case byCount:
		return int64(c.counts.active.Of(i))
	case byScore:
		return c.index.scores[i]
	}
	return c.engine.usages[i].valueOf(s.field)
}
