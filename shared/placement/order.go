package placement

import (
	"cmp"
	"strings"

	"berth/shared/cluster"
)

// order is how instances are compared, after the buffer: step by step, the first difference decides
// (S2, S3).
type order struct {
	key        string
	attributes []string // that are spread over, the outer ones first
	steps      []step
	// preferences is how many of the steps are strategies: the last is how well a task fits.
	preferences    int
	countsOwnTasks bool // the owner's tasks on the instance are compared
	groupsFirst    bool // no group is compared after anything that is not one
	countsFirst    bool // and before anything else that tells instances of one region apart
	random         bool // chance decides what the steps leave equal; otherwise the lower id
	scorer         scorer
}

// step compares one number of two instances: the lower the better.
type step struct {
	name   string
	kind   stepKind
	level  int
	column *[]int64
}

type stepKind uint8

const (
	byGroup  stepKind = iota // the owner's tasks in the group of the level
	byCount                  // the owner's tasks on the instance
	byColumn                 // a column of the engine
	byScore                  // what the scorer says
)

// newOrder puts the spec's strategies in terms of steps. Each spread counts within the groups of
// those before it; within one instance there is nothing left to spread over.
func newOrder(e *Engine, spec *Spec) order {
	o := order{countsFirst: true, groupsFirst: true}
	for _, s := range strategiesOf(spec) {
		o.key += s.Type + " " + s.Field + ";"
		switch {
		case s.Type == cluster.StrategyRandom:
			o.random, o.preferences = true, len(o.steps)
			return o
		case s.Type == cluster.StrategyBinpack && strings.EqualFold(s.Field, "cpu"):
			o.addStep(step{name: "free CPU", kind: byColumn, column: &e.cpu})
		case s.Type == cluster.StrategyBinpack:
			o.addStep(step{name: "free memory", kind: byColumn, column: &e.memory})
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
		o.key += "all;"
		o.addStep(step{name: "all tasks on the instance", kind: byColumn, column: &e.taskCount})
	}
	o.key += spec.Scoring
	if o.scorer = scorerFor(e, spec.Scoring); o.scorer != nil {
		o.addStep(step{name: spec.Scoring, kind: byScore})
	} else {
		o.addStep(step{name: "room left", kind: byColumn, column: &e.tightness})
	}
	return o
}

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

// spreadByDefault is S2: the zone with the fewest tasks, in it the instance with the fewest. It
// holds for who names neither a strategy nor a scoring nor a domain policy.
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

// rankedInstance is an instance, its region and what it is fit for.
type rankedInstance struct {
	instance, region int32
	feasibility      feasibility // [unfit] for no instance
}

// noInstance is no instance.
var noInstance = rankedInstance{instance: -1, region: -1}

// compareRanked is negative where a task had better go to a than to b; zero only where chance is to
// decide.
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
	case c.engine.idBefore(a.instance, b.instance):
		return -1
	}
	return 1
}

// isBetter reports whether a task can go to a, and had better go there than to b.
func (c *chooser) isBetter(a, b rankedInstance) bool {
	return a.instance >= 0 && c.accepts(a.feasibility) && (b.instance < 0 || c.compareRanked(a, b) < 0)
}

// stepValue is what the step compares of an instance in a region.
func (c *chooser) stepValue(s *step, i, r int32) int64 {
	switch s.kind {
	case byGroup:
		return c.groupCounts.counts[s.level][c.regionMap.regions[r].groups[s.level]]
	case byCount:
		return int64(c.counts.active[i])
	case byScore:
		return c.index.scores[i]
	}
	return (*s.column)[i]
}
