package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/cmd/berth/listing"
	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/decide/specs"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/snapshot"
)

// Question asks about more tasks of a service, tasks of a definition, or tasks of a size. Its
// constraints are added to those of the service; its other rules replace theirs.
type Question struct {
	Service    string
	Definition string // family:revision, or a family for its newest revision
	Needs      cluster.Resources
	Ports      []cluster.Port
	Rules      cluster.Rules
	Count      int
	// Instance, if not empty, asks why the tasks would not go there.
	Instance string
	// Moves asks for the moves that the cluster would make, and for those that would make room.
	Moves bool
}

// IsEmpty reports whether the question names no tasks.
func (q *Question) IsEmpty() bool {
	return q.Service == "" && q.Definition == "" && q.Needs == (cluster.Resources{}) && len(q.Ports) == 0 &&
		len(q.Rules.Metrics) == 0
}

// NotFound is the error for a name that the cluster does not have. It lists names that exist,
// because most such errors are misspellings.
type NotFound struct {
	Kind, Name string
	Known      []string // the names that it has
}

// shown is the most names that a message lists.
const shown = 10

// Error names the kind of thing, the name, up to ten names that exist, and the nearest one.
func (e *NotFound) Error() string {
	known := slices.Sorted(slices.Values(e.Known))
	more := len(known) - shown
	missing := fmt.Sprintf("%s %q is not in the cluster", e.Kind, e.Name)
	if slices.Contains(outsideClusters, e.Kind) {
		missing = fmt.Sprintf("there is no %s %q", e.Kind, e.Name)
	}
	if n := e.countBegun(); n > 0 {
		if len(e.Name) < listing.LeastShort {
			return fmt.Sprintf("%s %q is too short, expected at least %d characters of an id", e.Kind, e.Name,
				listing.LeastShort)
		}
		return fmt.Sprintf("%s %q is the beginning of %s, expected more characters", e.Kind, e.Name,
			CountNoun(n, "id"))
	}
	nearest := choice.DidYouMean(e.Name, known)
	known = known[:min(len(known), shown)]
	if more > 0 {
		known = append(known, fmt.Sprintf("%d more", more))
	}
	if len(known) == 0 {
		return missing + ", which has none"
	}
	return fmt.Sprintf("%s, expected one of: %s%s", missing, strings.Join(known, ", "), nearest)
}

// countBegun returns how many ids begin with the name, of things that have ids.
func (e *NotFound) countBegun() (n int) {
	if e.Kind != "task" && e.Kind != "instance" || e.Name == "" {
		return 0
	}
	for _, id := range e.Known {
		if strings.HasPrefix(id, e.Name) {
			n++
		}
	}
	return n
}

// outsideClusters are the kinds of things that are no part of a cluster.
var outsideClusters = []string{"cluster", "change", "page"}

// model is a cluster together with the engines that answer questions about it. Specs are kept,
// because the engine recognizes a spec that it has met by its pointer and then answers faster.
type model struct {
	snap    *snapshot.Snapshot
	engine  *placement.Engine
	planner *moves.Planner
	specs   map[string]*placement.Spec // by service and task definition
}

// newModel prepares a snapshot for questions, with the room that is kept free for daemons. The
// snapshot must not change while the model is used, except through it.
func newModel(snap *snapshot.Snapshot) *model {
	engine := placement.New(snap)
	decide.ReserveForDaemons(snap, engine)
	return &model{snap: snap, engine: engine, planner: moves.NewPlanner(engine), specs: map[string]*placement.Spec{}}
}

// findService returns a service by name. The error lists the services that exist. Of a service with
// task sets it returns the primary one's part, or that of the oldest while none is primary.
func (m *model) findService(name string) (*cluster.Service, error) {
	if s := m.snap.Services[name]; s != nil {
		sets := s.TaskSets()
		switch {
		case s.Deployment.Set != nil:
			return s.OfTaskSet(s.Deployment), nil
		case len(sets) > 0:
			return s.OfTaskSet(sets[0]), nil
		case s.HasTaskSets():
			return nil, fmt.Errorf("service %s has no task set: create one first", name)
		}
		return s, nil
	}
	return nil, &NotFound{"service", name, slices.Collect(maps.Keys(m.snap.Services))}
}

// findDefinition returns a task definition by its full name, or the newest revision of a family.
func (m *model) findDefinition(name string) (*cluster.TaskDefinition, error) {
	if d := m.snap.Definitions[name]; d != nil {
		return d, nil
	}
	var newest *cluster.TaskDefinition
	for _, d := range m.snap.Definitions {
		if d.Family == name && (newest == nil || d.Revision > newest.Revision) {
			newest = d
		}
	}
	if newest == nil {
		return nil, &NotFound{"task definition", name, slices.Collect(maps.Keys(m.snap.Definitions))}
	}
	return newest, nil
}

// serviceSpec is what the service's tasks ask of an instance, with further rules applied. Without
// further rules it returns the same spec each time, because the engine caches by spec.
func (m *model) serviceSpec(s *cluster.Service, further *cluster.Rules) (*placement.Spec, error) {
	key := fmt.Sprint(s.Name, " ", s.Deployment.TaskDefinition, " ", s.Deployment.ID, " ", s.Rules.External)
	if old := m.specs[key]; old != nil && further.IsEmpty() {
		return old, nil
	}
	def, err := m.findDefinition(s.Deployment.TaskDefinition)
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", s.Name, err)
	}
	rules := mergeRules(s.Rules, *further)
	// As in decisions, a REPLICA service without a policy has the one of the cluster's
	// configuration.
	if s.Strategy == cluster.Replica {
		rules.DomainPolicy = cmp.Or(rules.DomainPolicy, m.snap.Configuration.DomainPolicy)
	}
	spec, err := placement.NewSpec(def, s.Short, serviceGroup+s.Name, &rules)
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", s.Name, err)
	}
	spec.Affinity = specs.ParentOf(m.snap, &rules)
	if s.Strategy == cluster.Daemon {
		spec.PerInstance = 1
	}
	if specs.CountsAlone(s, spec) {
		spec.Deployment = s.Deployment.ID
	}
	// The next task goes to one capacity provider of the strategy (S14), so only its instances
	// count.
	if provider := specs.NextProvider(m.snap, s); provider != "" {
		spec.Attributes = append(slices.Clone(spec.Attributes), cluster.AttributeProvider+"="+provider)
	}
	if further.IsEmpty() {
		m.specs[key] = spec
	}
	return spec, nil
}

// The prefixes of the task groups that ECS assigns unless the caller names one.
const (
	serviceGroup = "service:"
	familyGroup  = "family:"
)

// placementRequest turns the question into a request to the engine. It replaces a family in the
// question by the full name of its newest revision.
func (m *model) placementRequest(q *Question) (r placement.Request, err error) {
	r.Count = q.Count
	switch {
	case q.Service != "":
		s, err := m.findService(q.Service)
		if err != nil {
			return r, err
		}
		// Domain rules depend on the desired count (P4, P5): the question assumes that it is raised
		// to fit the new tasks.
		r.Target = max(m.snap.Services[s.Name].WantedTasks(), m.countActive(s)+q.Count)
		r.Spec, err = m.serviceSpec(s, &q.Rules)
		return r, err
	case q.Definition != "":
		def, err := m.findDefinition(q.Definition)
		if err != nil {
			return r, err
		}
		q.Definition = def.Name()
		r.Spec, err = placement.NewSpec(def, m.standaloneOwner(), familyGroup+def.Family, &q.Rules)
		return r, err
	}
	// Tasks of a size belong to nothing, so only the question's own tasks count for spreading.
	r.Target = q.Count
	r.Spec, err = placement.NewSpec(&cluster.TaskDefinition{Needs: q.Needs, Ports: q.Ports}, noOwner, "", &q.Rules)
	return r, err
}

// noOwner owns tasks that have only a size. No short key has this form.
const noOwner = "what-if"

// standaloneOwner returns the owner of the cluster's standalone tasks, which only such a task
// knows; noOwner if there is none.
func (m *model) standaloneOwner() string {
	for t := range m.snap.Tasks() {
		if t.Service == "" && !t.Foreign {
			return t.Owner
		}
	}
	return noOwner
}

// countActive counts the tasks of a service that run or will run, among them
// those that are being replaced.
func (m *model) countActive(s *cluster.Service) (n int) {
	for _, t := range m.snap.TasksOf(s.Short) {
		if t.IsActive() {
			n++
		}
	}
	return n
}

// mergeRules adds the constraints of b to those of a, and lets its other rules replace theirs.
func mergeRules(a, b cluster.Rules) cluster.Rules {
	a.Constraints = slices.Concat(a.Constraints, b.Constraints)
	if b.Strategies != nil {
		a.Strategies = b.Strategies
	}
	if b.Metrics != nil {
		a.Metrics = b.Metrics
	}
	if b.Tolerations != nil {
		a.Tolerations = b.Tolerations
	}
	a.NodeConstraint = cmp.Or(b.NodeConstraint, a.NodeConstraint)
	a.DomainPolicy = cmp.Or(b.DomainPolicy, a.DomainPolicy)
	a.Scoring = cmp.Or(b.Scoring, a.Scoring)
	return a
}

// describeTasks puts the tasks into words: "of service web", "with 512 CPU units, 1 GPU".
func (q *Question) describeTasks() string {
	switch {
	case q.Service != "":
		return "of service " + q.Service
	case q.Definition != "":
		return "of " + q.Definition
	}
	var parts []string
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	n := &q.Needs
	add(n.CPU > 0, "%s CPU units", strconv.FormatFloat(float64(n.CPU)/cluster.CPUUnit, 'f', -1, 64))
	add(n.Memory > 0, "%d MiB", n.Memory)
	add(n.GPUs == 1 && n.PerGPU() == cluster.WholeGPU, "1 GPU")
	add(n.GPUs > 1, "%d GPUs", n.GPUs)
	add(n.GPUs == 1 && n.PerGPU() < cluster.WholeGPU, "%g of a GPU", float64(n.PerGPU())/cluster.WholeGPU)
	for _, p := range q.Ports {
		add(true, "port %d/%s", p.Number, p.Protocol)
	}
	for _, m := range q.Rules.Metrics {
		add(true, "%d %s", m.Load, m.Name)
	}
	return "with " + strings.Join(parts, ", ")
}
