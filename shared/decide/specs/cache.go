package specs

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/domain"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Cache keeps the specs of a snapshot's services and standalone tasks from one decision to the
// next.
type Cache struct {
	snap       *snapshot.Snapshot
	services   map[serviceKey]serviceSpec
	standalone map[Shape]standaloneSpec
	moves      map[moveKey]*placement.Spec
	rollouts   map[rolloutKey]*placement.Spec
}

// serviceKey is the short key of a service with one of its task definitions.
type serviceKey struct {
	short, definition string
	provider          string // that the tasks go to, or empty for any instance
	running           bool   // for running DAEMON tasks, which have to meet the constraints of their deployment
	external          bool   // of the launch type EXTERNAL, which task sets of one service may differ in
}

// serviceSpec is a service's spec and what it was made from.
type serviceSpec struct {
	spec     *placement.Spec
	rules    cluster.Rules
	parent   string // short key of the service of its affinity
	rev, def int64  // of the rows
}

type standaloneSpec struct {
	spec *placement.Spec
	rev  int64 // of the task definition
}

type moveKey struct {
	of          *placement.Spec
	soft, apart bool
	loads       string // that the tasks have in place of the service's
}

type rolloutKey struct {
	of         *placement.Spec
	deployment string
}

// maxSpecs bounds what is kept besides the specs of existing services: standalone tasks may come in
// any number of shapes, and services come and go.
const maxSpecs = 4096

// NewCache returns an empty cache of specs for the snapshot.
func NewCache(snap *snapshot.Snapshot) *Cache {
	return &Cache{
		snap: snap, services: map[serviceKey]serviceSpec{}, standalone: map[Shape]standaloneSpec{},
		moves: map[moveKey]*placement.Spec{}, rollouts: map[rolloutKey]*placement.Spec{},
	}
}

// ForService returns the spec of the service's tasks of one task definition, on any instance. A
// REPLICA service without a domain policy of its own has the given one, the configuration's.
func (c *Cache) ForService(
	s *cluster.Service, def *cluster.TaskDefinition, policy cluster.DomainPolicy,
) *placement.Spec {
	rules := s.Rules
	if rules.DomainPolicy == "" && s.Strategy == cluster.Replica {
		rules.DomainPolicy = policy
	}
	return c.cachedSpec(serviceKey{short: s.Short, definition: def.Name()}, s, def, rules)
}

// ForProvider returns the spec of the service's tasks that go to a capacity provider (S14), or of
// those that may go to any instance if it is empty.
func (c *Cache) ForProvider(
	provider string, s *cluster.Service, def *cluster.TaskDefinition, policy cluster.DomainPolicy,
) *placement.Spec {
	if provider == "" {
		return c.ForService(s, def, policy)
	}
	rules := s.Rules
	if rules.DomainPolicy == "" {
		rules.DomainPolicy = policy
	}
	return c.cachedSpec(serviceKey{short: s.Short, definition: def.Name(), provider: provider}, s, def, rules)
}

// ForRunningDaemon returns the spec that running tasks of a DAEMON service have to meet (S4). It
// has the constraints that the service had when its deployment was made. A taint NO_SCHEDULE keeps
// only new tasks away.
func (c *Cache) ForRunningDaemon(s *cluster.Service, def *cluster.TaskDefinition) *placement.Spec {
	rules := s.Rules
	rules.Constraints = s.Deployment.Constraints
	rules.Tolerations = append(slices.Clone(rules.Tolerations),
		cluster.Toleration{AnyValue: true, Effect: cluster.NoSchedule})
	return c.cachedSpec(serviceKey{short: s.Short, definition: def.Name(), running: true}, s, def, rules)
}

// cachedSpec returns the spec kept under the key, or makes it anew if what it depends on has
// changed. The service's row changes with every decision, its rules seldom do.
func (c *Cache) cachedSpec(
	key serviceKey, s *cluster.Service, def *cluster.TaskDefinition, rules cluster.Rules,
) *placement.Spec {
	key.external = rules.External
	old, ok := c.services[key]
	parent := ParentOf(c.snap, &s.Rules)
	if ok && old.parent == parent && old.def == def.Rev &&
		(old.rev == s.Rev && old.rules.DomainPolicy == rules.DomainPolicy ||
			reflect.DeepEqual(old.rules, rules)) {
		old.rev = s.Rev
		c.services[key] = old
		return old.spec
	}
	spec := parseSpec(def, s.Short, "service:"+s.Name, &rules)
	spec.Affinity = parent
	requireProvider(spec, key.provider)
	if s.Strategy == cluster.Daemon {
		spec.PerInstance = 1
	}
	if len(c.services) >= maxSpecs+2*len(c.snap.Services) {
		clear(c.services)
	}
	c.services[key] = serviceSpec{spec, rules, parent, s.Rev, def.Rev}
	return spec
}

// ParentOf returns the short key of the service that the rules have an affinity to; empty for none.
// Once that service is deleted, its children may run anywhere.
func ParentOf(snap *snapshot.Snapshot, rules *cluster.Rules) string {
	if rules.Affinity == "" {
		return ""
	}
	if parent := snap.Services[rules.Affinity]; parent != nil && parent.Status == cluster.ServiceActive {
		return parent.Short
	}
	return ""
}

// Shape is what standalone tasks may differ in for placement. Tasks of one shape have the same
// answer.
type Shape struct {
	Definition string
	needs      cluster.Resources
	group      string
	rules      string // as JSON, or empty for none
}

// ShapeOf returns the shape of a standalone task.
func ShapeOf(t *cluster.Task) Shape {
	return Shape{t.TaskDefinition, t.Needs, t.Group, encodeRules(t.Rules)}
}

// ShapeOfRequest returns the shape of the tasks that a request asks for.
func ShapeOfRequest(r *state.Request) Shape {
	return Shape{r.TaskDefinition, r.Needs, r.Group, encodeRules(r.Rules)}
}

// ProviderShapes returns the shape of a standalone task with each capacity provider of its
// strategy.
func ProviderShapes(t *cluster.Task) []Shape {
	var shapes []Shape
	for _, p := range t.Rules.Providers {
		shapes = append(shapes, Shape{t.TaskDefinition, t.Needs, t.Group,
			encodeRules(WithFirstProvider(t.Rules, p.Provider))})
	}
	return shapes
}

func encodeRules(rules *cluster.Rules) string {
	if rules == nil {
		return ""
	}
	text, _ := json.Marshal(rules) // it has only strings and numbers, so it cannot fail
	return string(text)
}

// ForStandalone returns the spec of standalone tasks of one shape. Their owner is the cluster's
// short key.
func (c *Cache) ForStandalone(k Shape, def *cluster.TaskDefinition, owner string) *placement.Spec {
	if old, ok := c.standalone[k]; ok && old.rev == def.Rev {
		return old.spec
	}
	var rules cluster.Rules
	if k.rules != "" {
		_ = json.Unmarshal([]byte(k.rules), &rules) // encodeRules made it
	}
	spec := parseSpec(def, owner, k.group, &rules)
	spec.Needs = k.needs
	requireProvider(spec, FirstProvider(&rules))
	if len(c.standalone) >= maxSpecs {
		clear(c.standalone)
	}
	c.standalone[k] = standaloneSpec{spec, def.Rev}
	return spec
}

// CountsAlone reports whether the tasks of each of the service's deployments are spread by themselves:
// while one is rolled out, those of the others end and no longer count (S2). Domain rules count them as
// long as they run, so not with a domain policy.
func CountsAlone(s *cluster.Service, spec *placement.Spec) bool {
	return len(s.Older) > 0 && s.Strategy == cluster.Replica && !s.HasTaskSets() && !spec.IsGoverned()
}

// ForRollout returns the spec for the tasks of one of the service's deployments (see [CountsAlone]).
func (c *Cache) ForRollout(spec *placement.Spec, s *cluster.Service, deployment string) *placement.Spec {
	if !CountsAlone(s, spec) {
		return spec
	}
	key := rolloutKey{spec, deployment}
	if s := c.rollouts[key]; s != nil {
		return s
	}
	next := *spec
	next.Deployment = deployment
	if len(c.rollouts) >= maxSpecs {
		clear(c.rollouts)
	}
	c.rollouts[key] = &next
	return &next
}

// ForPlannedMove returns the spec for checking the one instance that a plan of moves has chosen. It
// leaves out what the plan has taken care of: domain rules, the instances of an application and its
// capacity in all, which would count the task where it still is, a capacity that may be exceeded, and the affinity of a
// task that is apart from the service it should be beside. loads has what the task that moves takes along
// ([LoadsTakenAlong]).
func (c *Cache) ForPlannedMove(
	spec *placement.Spec, conf *cluster.Configuration, apart bool, loads map[string]int64,
) *placement.Spec {
	soft := conf.Priorities.Capacity != 0
	key := moveKey{spec, soft, apart, ""}
	if len(loads) > 0 {
		key.loads = fmt.Sprint(loads)
	}
	if s := c.moves[key]; s != nil {
		return s
	}
	next := *spec
	if (domain.Rule{Policy: next.DomainPolicy}).Governs() {
		next.DomainPolicy, next.PerInstance = "", 1
	}
	if len(loads) > 0 {
		next.Loads = slices.Clone(next.Loads)
		for n, m := range next.Loads {
			if load, reported := loads[m.Name]; reported {
				next.Loads[n].Load = load
			}
		}
	}
	if soft && next.Application == "" { // what an application may use binds all the same
		next.Loads = nil
	}
	if apart {
		next.Affinity = ""
	}
	next.Replacing = true
	if len(c.moves) >= maxSpecs {
		clear(c.moves)
	}
	c.moves[key] = &next
	return &next
}

// LoadsTakenAlong returns the loads that the task has reported, of metrics that tasks of the spec still
// have; nil for none. The task that replaces it elsewhere has them until it reports its own: the move was
// planned for them.
func LoadsTakenAlong(t *cluster.Task, spec *placement.Spec) (loads map[string]int64) {
	for _, m := range spec.Loads {
		if load, reported := t.Reported[m.Name]; reported {
			if loads == nil {
				loads = map[string]int64{}
			}
			loads[m.Name] = load
		}
	}
	return loads
}

// parseSpec makes a spec of rows. Their constraints were valid when the rows were written; a
// constraint that is not valid any more matches no instance.
func parseSpec(def *cluster.TaskDefinition, owner, group string, rules *cluster.Rules) *placement.Spec {
	spec, err := placement.NewSpec(def, owner, group, rules)
	if err == nil {
		return spec
	}
	spec, _ = placement.NewSpec(&cluster.TaskDefinition{}, owner, group, &cluster.Rules{NodeConstraint: "false"})
	spec.Needs = def.Needs
	return spec
}

// requireProvider makes the spec's tasks go to instances of a capacity provider, unless it is
// empty.
func requireProvider(spec *placement.Spec, provider string) {
	if provider != "" {
		spec.Attributes = append(slices.Clone(spec.Attributes), cluster.AttributeProvider+"="+provider)
	}
}
