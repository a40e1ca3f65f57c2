package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/cmd/berth/installation"
	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
	"berth/shared/state"
)

// groupReplay replays a trace on Auto Scaling groups that managed scaling sizes. Each kind of node
// has a group and a capacity provider, with at most as many instances as the trace has nodes of
// that kind. Each task is a service with a desired count of 1 and ECS's default percentages, 100
// and 200: consolidation may move the task, but it must never be missing. A service is deleted once
// its task has run as long as in the trace.
type groupReplay struct {
	*replay
	consolidate bool
	kinds       []*nodeKind
	services    map[string]*service
	ended       int
	hours       float64 // instance-hours
	peak        int     // the most instances at a time
	sampled     []int   // instances in each minute
	last        time.Time
}

// service is the service of one task of the trace.
type service struct {
	trace.Task
	hasRun, deleted bool
	wanted, running map[string]bool // tasks by id: those that should run, and those of them that do
	starts          int
	violated        bool // it had fewer or more tasks than its percentages allow
}

// Scaled is what a replay on groups measured.
type Scaled struct {
	Tasks int `json:"tasks"`
	// Ran counts the tasks that ran to their end, Moved the starts beyond each task's first.
	Ran   int `json:"ran"`
	Moved int `json:"moved"`
	// InstanceHours is the time from launch to termination, summed over all instances. It is
	// sampled each minute.
	InstanceHours float64 `json:"instanceHours"`
	PeakInstances int     `json:"peakInstances"`
	// Violated counts the services that had at any time fewer tasks running, or more tasks, than
	// their percentages allow.
	Violated    int     `json:"violated"`
	Groups      int     `json:"groups"`
	Days        float64 `json:"days"` // of virtual time
	WallSeconds float64 `json:"wallSeconds"`

	instances []int // in each minute
}

// RunScaled replays the trace on groups that managed scaling sizes, by ECS's rules or, with
// consolidate, by Berth's consolidation as well. It ends when every task has run and the groups are
// empty, or after [Options.Days].
func RunScaled(ctx context.Context, o Options, consolidate bool) (Scaled, error) {
	began := time.Now()
	r := &groupReplay{consolidate: consolidate, kinds: nodeKindsOf(o.Nodes), services: map[string]*service{},
		last: epoch}
	var err error
	if r.replay, err = openReplay(o, installation.Options{Watch: r.observeRecords}); err != nil {
		return Scaled{}, err
	}
	defer r.installation.Close()
	if err := r.playTrace(ctx, r); err != nil {
		return Scaled{}, err
	}
	out := Scaled{
		Tasks: len(r.tasks), Ran: r.ended, InstanceHours: r.hours, PeakInstances: r.peak, Groups: len(r.kinds),
		Days: r.installation.Loop.Now().Sub(epoch).Hours() / 24, WallSeconds: time.Since(began).Seconds(),
		instances: r.sampled,
	}
	for _, s := range r.services {
		out.Moved += max(0, s.starts-1)
		if s.violated {
			out.Violated++
		}
	}
	return out, nil
}

// addCapacity creates a group and a capacity provider for each kind of node.
func (r *groupReplay) addCapacity(ctx context.Context) error {
	for _, k := range r.kinds {
		arn, err := r.installation.AWS.Groups.AddGroup(autoscaling.GroupSpec{Name: k.name, Cluster: clusterName,
			Machine: k.machineOfKind(), Max: k.nodes, Protects: true,
			Tags: map[string]string{handler.OwnerTag: installation.Name}})
		if err != nil {
			return err
		}
		provider := &cluster.CapacityProvider{
			Name: k.name, Group: k.name, GroupARN: arn, Protection: true, Draining: true,
			Scaling: cluster.DefaultScaling, Tags: map[string]string{},
		}
		provider.Scaling.Enabled = true
		if r.consolidate {
			provider.Tags[cluster.TagConsolidation] = "true"
		}
		if _, err := r.installation.API.CapacityProviders.CreateCapacityProvider(ctx, provider); err != nil {
			return err
		}
	}
	_, err := r.installation.API.ClusterProviders.PutClusterProviders(ctx, clusterName, r.groupNames(), nil)
	return err
}

// groupNames returns the names of the groups, which are also those of the capacity providers.
func (r *groupReplay) groupNames() (names []string) {
	for _, k := range r.kinds {
		names = append(names, k.name)
	}
	return names
}

// submitTask creates the task's service, on the kind of node with the most room.
func (r *groupReplay) submitTask(t trace.Task) error {
	k := chooseKind(r.kinds, t)
	if k == nil {
		return errors.New("no kind of node can hold it")
	}
	k.used.addTask(t, 1)
	r.installation.Loop.After(runTime(t), func() { k.used.addTask(t, -1) })
	r.services[t.Name] = &service{Task: t, running: map[string]bool{}, wanted: map[string]bool{}}
	spec := operation.CreateService{
		Cluster: clusterName, Name: t.Name, TaskDefinition: shapeOfTask(t).definitionFamily() + ":1", Desired: new(1),
		Token:  t.Name,
		Params: t.Name, Rules: cluster.Rules{Scoring: r.options.Strategy},
	}
	spec.Providers = &[]cluster.ProviderShare{{Provider: k.name, Weight: 1}}
	spec.ZoneRebalancing = new(bool)
	if r.options.Strategy == "" {
		spec.Rules.Strategies = []cluster.PlacementStrategy{{Type: cluster.StrategyBinpack, Field: "memory"}}
	}
	_, err := r.installation.API.Services.CreateService(context.Background(), spec)
	return err
}

// observeRecords sees the records of every commit: it notes when tasks start, and whether a service
// ever has too few or too many.
func (r *groupReplay) observeRecords(records []state.Record) {
	// All records of a commit are applied before any service is checked: a task and its replacement
	// may change in one commit.
	changed := map[*service]bool{}
	for _, rec := range records {
		row, ok := rec.New.(*cluster.Task)
		if !ok || r.services[row.Service] == nil {
			continue
		}
		s := r.services[row.Service]
		isWanted := row.Desired == cluster.TaskRunning && row.Last != cluster.TaskStopped
		setMember(s.wanted, row.ID, isWanted)
		setMember(s.running, row.ID, isWanted && row.Last == cluster.TaskRunning)
		old, _ := rec.Old.(*cluster.Task)
		if row.Last == cluster.TaskRunning && (old == nil || old.Last != cluster.TaskRunning) {
			s.starts++
		}
		changed[s] = true
	}
	for s := range changed {
		switch {
		// A deleted service has fewer tasks than its percentages allow, and should.
		case s.deleted:
		case !s.hasRun && len(s.running) > 0:
			s.hasRun, r.last = true, r.installation.Loop.Now()
			r.installation.Loop.After(runTime(s.Task), func() { r.deleteService(s) })
		case s.hasRun && len(s.running) < 1, len(s.wanted) > 2: // 100 % and 200 % of one task
			s.violated = true
		}
	}
}

func setMember(set map[string]bool, id string, isMember bool) {
	if isMember {
		set[id] = true
	} else {
		delete(set, id)
	}
}

// deleteService ends a task: services stop only when they are deleted.
func (r *groupReplay) deleteService(s *service) {
	s.deleted, r.last = true, r.installation.Loop.Now()
	r.ended++
	_, err := r.installation.API.Services.DeleteService(context.Background(), clusterName, s.Name, true)
	if err != nil {
		r.failed = errors.Join(r.failed, fmt.Errorf("deleting service %s: %w", s.Name, err))
	}
}

func (r *groupReplay) startMeasuring() { r.installation.Loop.After(time.Minute, r.sampleInstances) }

// sampleInstances adds a minute of every instance that exists.
func (r *groupReplay) sampleInstances() {
	n := r.countInstances()
	r.hours += float64(n) / 60
	r.peak = max(r.peak, n)
	r.sampled = append(r.sampled, n)
	r.startMeasuring()
}

// countInstances counts the members of all groups, from launch to termination: what AWS would
// charge for.
func (r *groupReplay) countInstances() (n int) {
	groups, err := r.installation.AWS.Groups.DescribeGroups(context.Background(), r.groupNames())
	if err != nil {
		r.failed = errors.Join(r.failed, err)
	}
	for _, g := range groups {
		n += len(g.Instances)
	}
	return n
}

func (r *groupReplay) countEndedTasks() int { return r.ended }

// isReplayOver looks at the groups only now and then: to describe them takes longer than a step.
func (r *groupReplay) isReplayOver(step int) bool {
	now := r.installation.Loop.Now()
	if days := r.options.Days; days > 0 && now.Sub(epoch) > time.Duration(days*24*float64(time.Hour)) {
		return true
	}
	return step%stepsPerReport == 0 && r.ended == len(r.tasks) &&
		(now.Sub(r.last) > quietPeriod || r.countInstances() == 0)
}

func (r *groupReplay) checkAfterStep() error { return nil }
