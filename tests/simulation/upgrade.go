package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/ec2"
	"berth/shared/state"
)

// A run of another kind: a node group is updated while its services run, under the same faults and some of its own. The
// checks of the other runs hold in it, too; those of updates are [upgradeJudge]'s.

const (
	groupName    = "nodes"
	providerName = "provider"
	firstImage   = "ami-0"
	// upgradeSpan is how long things happen to such a cluster.
	upgradeSpan = 90 * time.Minute
	// longestUpdate bounds how long an update may take once nothing goes wrong any more, for each node of its group.
	longestUpdate, longestNode = 150 * time.Minute, 8 * time.Minute
)

// Pool is the shape of a node group, and what is asked of its updates.
type Pool struct {
	Zones, Nodes int // nodes of each zone
	// Spare is how far the group's maximum is above what it has, Least how far its minimum is below that.
	Spare, Least int
	Config       cluster.UpdateConfig
	// Domains is how many upgrade domains the nodes are in; 0 for none.
	Domains int
	// Scaled has managed scaling size the group, by a capacity provider that services use.
	Scaled bool
	// Outside is how many instances there are beside the group.
	Outside int
	// Rebalances has the group even its zones out by itself, tasks or not.
	Rebalances bool
}

// drawPool makes the shape of a seed's node group: most are small, one in many is that of the issue.
func drawPool(rng *rand.Rand) Pool {
	p := Pool{
		Zones: 1 + rng.IntN(3), Nodes: 1 + rng.IntN(3), Spare: rng.IntN(4), Least: rng.IntN(2),
		Config: cluster.UpdateConfig{MaxUnavailable: []int{0, 1, 2, 3}[rng.IntN(4)]}, Scaled: rng.IntN(4) == 0,
	}
	if rng.IntN(4) == 0 {
		p.Config = cluster.UpdateConfig{MaxUnavailablePercentage: []int{10, 50, 100}[rng.IntN(3)]}
	}
	if rng.IntN(5) == 0 {
		p.Config.Strategy, p.Scaled = cluster.UpdateMinimal, false
	}
	if rng.IntN(6) == 0 {
		p.Domains = 2 + rng.IntN(2)
	}
	if p.Zones*p.Nodes < 3 || p.Config.Strategy == cluster.UpdateMinimal || rng.IntN(4) == 0 {
		p.Outside = 2
	}
	if p.Scaled {
		p.Outside = 0 // the model of services knows no capacity providers
	}
	p.Rebalances = rng.IntN(6) == 0
	if rng.IntN(400) == 0 {
		p.Zones, p.Nodes, p.Config = 5, 20, cluster.UpdateConfig{MaxUnavailable: 20}
	}
	return p
}

// parallel is how many of the pool's nodes may be out of service at once, by a rule of its own (N1).
func (p Pool) parallel(of int) int {
	n := p.Config.MaxUnavailable
	if p.Config.MaxUnavailablePercentage > 0 {
		n = of * p.Config.MaxUnavailablePercentage / 100
	}
	return min(max(n, 1), 100)
}

// surge is how many nodes more there are while the pool's are replaced (N2).
func (p Pool) surge(of int) int {
	if p.Config.Strategy == cluster.UpdateMinimal {
		return 0
	}
	return max(2*p.Zones, p.parallel(of))
}

func (p Pool) sizes() cluster.Sizes {
	n := p.Zones * p.Nodes
	return cluster.Sizes{Min: max(0, n-p.Least), Max: n + p.Spare, Desired: n}
}

// machine is what the pool's nodes are.
func (p Pool) machine() ec2.Machine {
	m := machine
	m.Zones = nil
	for z := range p.Zones {
		m.Zones = append(m.Zones, fmt.Sprintf("us-east-1%c", 'a'+z))
	}
	if p.Scaled {
		m.Provider = providerName
	}
	return m
}

// upgrading is the part of a world that is about its node group.
type upgrading struct {
	*World
	pool   Pool
	judge  *upgradeJudge
	images int // the last image's number
	placed int // instances that were given their upgrade domain
	// blocks end what keeps tasks on nodes.
	blocks []func()
	deny   map[string]bool // operations refused for lack of rights
	launch func() autoscaling.LaunchFault
	sick   bool // agents leave as soon as they have come
	lost   bool // the group, or what it launches from, is gone for good
	// strikes counts the calls of node-group-upgrade that change something; it dies after the one numbered dieAfter.
	strikes, dieAfter int
}

// shape is that of the run's node group.
func (w *World) shape() Pool {
	if w.Pool != nil {
		return *w.Pool
	}
	return drawPool(rand.New(rand.NewPCG(w.Seed, 0x706f6f6c)))
}

func newUpgrades(w *World, p Pool) *upgrading {
	u := &upgrading{World: w, pool: p, deny: map[string]bool{}}
	u.judge = newUpgradeJudge(u)
	u.judge.disturbed, u.judge.blocked = p.Rebalances, p.Rebalances
	return u
}

// furnish makes the cluster and its node group, and waits until that can be used.
func (u *upgrading) furnish() error {
	ctx := context.Background()
	if _, err := u.EnsureCluster(ctx, clusterName, u.pool.Outside, machine); err != nil {
		return err
	}
	if err := u.balance(); err != nil {
		return err
	}
	u.register()
	s := u.pool.sizes()
	arn, err := u.AWS.Groups.AddGroup(autoscaling.GroupSpec{
		Name: groupName, Cluster: clusterName, Machine: u.pool.machine(), Min: s.Min, Max: s.Max, Desired: s.Desired, Image: firstImage,
		Protects: u.pool.Scaled, Rebalances: u.pool.Rebalances,
	})
	if err != nil {
		return err
	}
	u.AWS.Groups.SetLaunchFaults(u.launchFault)
	u.Runtime.Start()
	u.until(u.Loop.Now().Add(time.Minute))
	if u.pool.Scaled {
		if err := u.provide(arn); err != nil {
			return err
		}
	}
	if _, err := u.API.NodeGroups.CreateNodeGroup(ctx, operation.CreateNodeGroup{
		Cluster: clusterName, Name: groupName, AutoScalingGroup: groupName, Config: u.pool.Config, Params: "p", Labels: map[string]string{"team": "a"},
	}); err != nil {
		return err
	}
	for range 10 {
		if g := u.nodeGroup(); g != nil && g.Status == cluster.NodeGroupActive {
			u.judge.begin()
			return nil
		}
		u.until(u.Loop.Now().Add(time.Minute))
	}
	return fmt.Errorf("the node group is %+v", u.nodeGroup())
}

// provide makes a capacity provider of the group, with managed scaling.
func (u *upgrading) provide(arn string) error {
	p := &cluster.CapacityProvider{
		Name: providerName, Group: groupName, GroupARN: arn, Protection: true, Draining: u.Seed%2 == 0, Scaling: cluster.DefaultScaling,
	}
	p.Scaling.Enabled = true
	if _, err := u.API.CapacityProviders.CreateCapacityProvider(context.Background(), p); err != nil {
		return err
	}
	_, err := u.API.ClusterProviders.PutClusterProviders(context.Background(), clusterName, []string{providerName}, []cluster.ProviderShare{{Provider: providerName, Weight: 1}})
	return err
}

func (u *upgrading) nodeGroup() *cluster.NodeGroup {
	g, _ := u.checker.rows[state.NodeGroupKey(clusterName, groupName)].(*cluster.NodeGroup)
	return g
}

// last is the row of the last update; nil before there is one.
func (u *upgrading) last() *cluster.Update {
	g := u.nodeGroup()
	if g == nil || g.Update == "" {
		return nil
	}
	row, _ := u.checker.rows[state.UpdateKey(clusterName, groupName, g.Update)].(*cluster.Update)
	return row
}

// live is the life of such a world: services come to rest, then the history with its faults, then updates until one
// succeeds, and everything has to come to rest.
func (u *upgrading) live() {
	u.chaos.active = false
	if err := u.furnish(); err != nil {
		u.checker.fail("making the node group: %v", err)
		return
	}
	u.populate()
	u.until(u.Loop.Now().Add(5 * time.Minute))
	u.chaos.active = true
	begin := u.Loop.Now()
	for n, a := range u.Actions {
		u.Loop.After(a.At, func() {
			u.note("action %d: %s", n, a)
			u.act(a)
		})
	}
	u.until(begin.Add(upgradeSpan))
	u.span = u.Loop.Now().Sub(epoch)
	u.heal()
	u.unblock()
	u.succeed()
	if len(u.checker.broken) == 0 {
		u.rest()
	}
}

// populate makes services: some replicas, and a daemon in most runs. Their percentages let tasks leave nodes.
func (u *upgrading) populate() {
	nodes := u.pool.Zones * u.pool.Nodes
	for n := range 1 + u.rng.IntN(2) {
		p := [][2]int{{100, 200}, {50, 200}, {0, 100}}[u.rng.IntN(3)]
		u.serve(fmt.Sprint("s", n), []string{"checked:1", "small:1"}[u.rng.IntN(2)], 1+u.rng.IntN(2*nodes), p)
	}
	if u.rng.IntN(4) > 0 {
		u.client.plain("d", "checked:1", 0, true)
	}
}

// serve makes a service of replicas.
func (u *upgrading) serve(name, definition string, desired int, percents [2]int) {
	s := &wanted{name: name, desired: desired, exists: true, definition: definition, rules: &cluster.Rules{}}
	spec := operation.CreateService{
		Cluster: clusterName, Name: name, TaskDefinition: definition, Desired: &s.desired, Token: name, Params: name,
		MinHealthy: &percents[0], MaxPercent: &percents[1],
	}
	spec.ZoneRebalancing = new(bool) // it would move tasks back and forth
	u.client.call("create "+name, func(ctx context.Context) error {
		_, err := u.API.Services.CreateService(ctx, spec)
		return err
	}, func(err error) {
		if err != nil {
			u.checker.fail("creating service %s says %v", name, err)
			return
		}
		u.client.services = append(u.client.services, s)
	})
}

// unblock ends what kept tasks from leaving nodes.
func (u *upgrading) unblock() {
	for _, end := range u.blocks {
		end()
	}
	stop := func() {
		for _, id := range u.client.tasks {
			u.client.stopOne(id)
		}
	}
	for n := range 6 { // some were only just asked for
		u.Loop.After(time.Duration(n)*5*time.Minute, stop)
	}
	u.blocks, u.launch = nil, nil
	clear(u.deny)
	for _, s := range u.client.services {
		u.Loop.After(time.Minute, func() { u.lighten(s) })
	}
}

// lighten has a service run one task for each node at most: whatever is drained, there is room.
func (u *upgrading) lighten(s *wanted) {
	n := u.pool.Zones * u.pool.Nodes
	switch {
	case s.daemon || s.desired <= n:
	case s.busy:
		u.Loop.After(5*time.Second, func() { u.lighten(s) })
	default:
		u.client.change(s, operation.UpdateService{Desired: &n}, func() { s.desired = n })
	}
}

// succeed runs updates until one succeeds: the one under way may still suffer from what happened to it, and what is then
// run again must not.
func (u *upgrading) succeed() {
	u.until(u.Loop.Now().Add(30 * time.Minute)) // services that were throttled try again
	u.ended()
	for try := 0; len(u.checker.broken) == 0; try++ {
		if last := u.last(); last != nil && last.Status == cluster.UpdateSuccessful {
			return
		}
		if try > 1 {
			u.checker.fail("invariant 8: run again when nothing went wrong any more, the update failed: %+v", u.last().Errors)
			return
		}
		u.judge.calm = try > 0
		u.begin(operation.UpdateNodeGroupVersion{ReleaseVersion: image(max(u.images, 1))})
		u.until(u.Loop.Now().Add(time.Minute))
		u.ended()
	}
}

// ended lets time go by until no update is in progress.
func (u *upgrading) ended() {
	limit := u.Loop.Now().Add(longestUpdate + time.Duration(u.pool.Zones*u.pool.Nodes)*longestNode)
	for len(u.checker.broken) == 0 {
		last := u.last()
		if last == nil || last.HasEnded() {
			return
		}
		if u.Loop.Now().After(limit) {
			u.checker.fail("invariant 8: nothing goes wrong, and the update is in phase %s and waits for %s", last.Phase, last.WaitingFor)
			return
		}
		u.until(u.Loop.Now().Add(time.Minute))
	}
}

// rest lets the world come to rest and checks that it did.
func (u *upgrading) rest() {
	for range 3 {
		u.checker.broken = nil
		u.until(u.Loop.Now().Truncate(time.Hour).Add(time.Hour + afterSweep))
		if len(u.checker.broken) > 0 {
			return
		}
		u.judge.atRest()
		u.converged()
		if len(u.checker.broken) == 0 {
			return
		}
	}
}

func image(n int) string { return fmt.Sprint("ami-", n) }

// begin asks for an update as a client does, again and again until it is answered.
func (u *upgrading) begin(change operation.UpdateNodeGroupVersion) {
	change.Cluster, change.NodeGroup = clusterName, groupName
	change.Token = fmt.Sprint("update", u.Loop.Now().UnixNano())
	change.Params = fmt.Sprint(change.ReleaseVersion, change.Force, change.ForceProtected)
	u.client.call("update to "+change.ReleaseVersion, func(ctx context.Context) error {
		_, err := u.API.NodeGroups.UpdateNodeGroupVersion(ctx, change)
		return err
	}, func(err error) {
		switch code := cluster.ErrorCode(err); {
		case err == nil:
		case code == cluster.CodeResourceInUse:
			u.mark(MarkInUse)
		default:
			u.checker.fail("invariant 9: an update was asked for, and the answer is %v", err)
		}
	})
}
