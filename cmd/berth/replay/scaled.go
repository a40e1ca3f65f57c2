package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/cmd/berth/installation"
	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/ec2"
	"berth/shared/state"
)

// scaledRun replays a trace on Auto Scaling groups that managed scaling sizes: one group and one
// capacity provider for each kind of node, of at most as many instances as the trace has nodes.
// Each task is a service of one task, with ECS's percentages of 100 and 200: it may be moved, but
// never be away. It lives for as long as in the trace from when it first runs, and is deleted then.
type scaledRun struct {
	arrivals
	pools    []*pool
	services map[string]*servedPod
	ended    int
	hours    float64
	peak     int
	short    map[string]int // services that had fewer tasks than their percentage allows, and how often
	last     time.Time      // when something last began or ended
}

// servedPod is the service of one task of the trace.
type servedPod struct {
	trace.Task
	began, gone bool
	running     map[string]bool // its tasks that run and are wanted, by id
	wanted      map[string]bool
	starts      int
}

// Scaled is what a replay on groups measured.
type Scaled struct {
	Tasks int `json:"tasks"`
	// Ran are the tasks that ran to their end, Moved how many starts there were beside their first
	// ones.
	Ran   int `json:"ran"`
	Moved int `json:"moved"`
	// InstanceHours is the sum over all instances of the time from their launch to their end.
	InstanceHours float64 `json:"instanceHours"`
	PeakInstances int     `json:"peakInstances"`
	// Violated is how many services had fewer tasks running, or more tasks, than their percentages
	// allow, at any time.
	Violated    int     `json:"violated"`
	Groups      int     `json:"groups"`
	Days        float64 `json:"days"`
	WallSeconds float64 `json:"wallSeconds"`
}

// RunScaled replays the trace on groups that managed scaling sizes, as ECS has it or with
// consolidation.
func RunScaled(ctx context.Context, o Options, consolidate bool) (Scaled, error) {
	if o.Compress <= 0 {
		o.Compress = 1
	}
	if err := timed(o.Tasks); err != nil {
		return Scaled{}, err
	}
	began := time.Now()
	r, err := openScaled(o)
	if err != nil {
		return Scaled{}, err
	}
	defer r.Close()
	if err := r.prepare(ctx, consolidate); err != nil {
		return Scaled{}, err
	}
	if err := r.drive(ctx); err != nil {
		return Scaled{}, err
	}
	out := Scaled{
		Tasks: len(r.Tasks), Ran: r.ended, InstanceHours: r.hours, PeakInstances: r.peak, Violated: len(r.short),
		Groups: len(r.pools),
		Days:   r.Loop.Now().Sub(epoch).Hours() / 24, WallSeconds: time.Since(began).Seconds(),
	}
	for _, p := range r.services {
		out.Moved += max(0, p.starts-1)
	}
	return out, nil
}

func openScaled(o Options) (*scaledRun, error) {
	settings := handler.DefaultSettings()
	settings.ProvisioningLimit, settings.ServiceLimit = len(o.Tasks), len(o.Tasks)
	r := &scaledRun{arrivals: newArrivals(o), pools: poolsOf(o.Nodes), services: map[string]*servedPod{},
		short: map[string]int{}, last: epoch}
	ids := 0
	var err error
	r.Installation, err = installation.Open(installation.Options{
		Loop: embedded.NewVirtualLoop(epoch), Seed: o.Seed, Settings: &settings, Watch: r.watch,
		NewID: func() string { ids++; return fmt.Sprintf("%032x", ids) },
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// prepare makes the cluster, its groups with their capacity providers, and a task definition per
// shape of task.
func (r *scaledRun) prepare(ctx context.Context, consolidate bool) error {
	if _, err := r.EnsureCluster(ctx, clusterName, 0, ec2.Machine{}); err != nil {
		return err
	}
	var names []string
	for _, p := range r.pools {
		arn, err := r.AWS.Groups.AddGroup(autoscaling.GroupSpec{Name: p.name, Cluster: clusterName,
			Machine: p.machine(), Max: p.nodes, Protects: true})
		if err != nil {
			return err
		}
		row := &cluster.CapacityProvider{
			Name: p.name, Group: p.name, GroupARN: arn, Protection: true, Draining: true,
			Scaling: cluster.DefaultScaling, Tags: map[string]string{},
		}
		row.Scaling.Enabled = true
		if consolidate {
			row.Tags[cluster.TagConsolidation] = "true"
		}
		if _, err := r.API.CapacityProviders.CreateCapacityProvider(ctx, row); err != nil {
			return err
		}
		names = append(names, p.name)
	}
	if _, err := r.API.ClusterProviders.PutClusterProviders(ctx, clusterName, names, nil); err != nil {
		return err
	}
	for _, s := range shapesOf(r.Tasks) {
		if err := register(ctx, r.Installation, s); err != nil {
			return err
		}
	}
	if err := r.Start(ctx); err != nil {
		return err
	}
	r.next(r.create)
	r.Loop.After(time.Minute, r.count)
	return nil
}

// create makes the task's service, of the group that has most to spare.
func (r *scaledRun) create(p trace.Task) error {
	to := poolFor(r.pools, p)
	if to == nil {
		return errors.New("no kind of node can hold it")
	}
	to.take(p, 1)
	r.services[p.Name] = &servedPod{Task: p, running: map[string]bool{}, wanted: map[string]bool{}}
	r.Loop.After(life(p), func() { to.take(p, -1) })
	spec := operation.CreateService{
		Cluster: clusterName, Name: p.Name, TaskDefinition: shapeOf(p).family() + ":1", Desired: new(1), Token: p.Name,
		Params: p.Name,
		Rules:  cluster.Rules{Scoring: r.Strategy},
	}
	if r.Strategy == "" {
		spec.Rules.Strategies = []cluster.PlacementStrategy{{Type: cluster.StrategyBinpack, Field: "memory"}}
	}
	spec.Providers = &[]cluster.ProviderShare{{Provider: to.name, Weight: 1}}
	spec.ZoneRebalancing = new(bool)
	_, err := r.API.Services.CreateService(context.Background(), spec)
	return err
}

func life(p trace.Task) time.Duration { return max(time.Second, *p.Deleted-*p.Created) }

// watch sees every commit: when tasks begin to run, and whether their services ever have too few or
// too many.
func (r *scaledRun) watch(records []state.Record) {
	touched := map[string]bool{}
	for _, rec := range records {
		row, ok := rec.New.(*cluster.Task)
		if !ok || r.services[row.Service] == nil {
			continue
		}
		p := r.services[row.Service]
		alive := row.Desired == cluster.TaskRunning && row.Last != cluster.TaskStopped
		mark(p.wanted, row.ID, alive)
		mark(p.running, row.ID, alive && row.Last == cluster.TaskRunning)
		if old, _ := rec.Old.(*cluster.Task); row.Last == cluster.TaskRunning &&
			(old == nil || old.Last != cluster.TaskRunning) {
			p.starts++
		}
		touched[row.Service] = true
	}
	for name := range touched {
		p := r.services[name]
		switch {
		case p.gone:
		case !p.began && len(p.running) > 0:
			p.began, r.last = true, r.Loop.Now()
			r.Loop.After(life(p.Task), func() { r.delete(p) })
		case p.began && len(p.running) < 1, len(p.wanted) > 2:
			r.short[name]++
		}
	}
}

func mark(set map[string]bool, id string, in bool) {
	if in {
		set[id] = true
	} else {
		delete(set, id)
	}
}

func (r *scaledRun) delete(p *servedPod) {
	p.gone, r.last = true, r.Loop.Now()
	r.ended++
	if _, err := r.API.Services.DeleteService(context.Background(), clusterName, p.Name, true); err != nil {
		r.failed = errors.Join(r.failed, fmt.Errorf("deleting service %s: %w", p.Name, err))
	}
}

// count adds up a minute of every instance that there is.
func (r *scaledRun) count() {
	n := r.instances()
	r.hours += float64(n) / 60
	r.peak = max(r.peak, n)
	r.Loop.After(time.Minute, r.count)
}

func (r *scaledRun) instances() (n int) {
	var names []string
	for _, p := range r.pools {
		names = append(names, p.name)
	}
	groups, err := r.AWS.Groups.DescribeGroups(context.Background(), names)
	if err != nil {
		r.failed = errors.Join(r.failed, err)
	}
	for _, g := range groups {
		n += len(g.Instances)
	}
	return n
}

// drive runs the loop until every task has run to its end and the groups are empty, or nothing has
// happened for long.
func (r *scaledRun) drive(ctx context.Context) error {
	for steps := 0; ; steps++ {
		if steps%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if r.Progress != nil {
				r.Progress(r.arrived, r.ended)
			}
			done := r.ended == len(r.coming)
			if done && r.instances() == 0 || done && r.Loop.Now().Sub(r.last) > settled {
				return nil
			}
		}
		if r.failed != nil {
			return r.failed
		}
		if r.Days > 0 && r.Loop.Now().Sub(epoch) > time.Duration(r.Days*24*float64(time.Hour)) {
			return nil
		}
		if !r.Loop.Step() {
			return errors.New("the loop has nothing left to do")
		}
	}
}
