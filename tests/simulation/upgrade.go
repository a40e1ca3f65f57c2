package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/ec2"
	"berth/shared/state"
	"berth/tests/simulation/coverage"
)

// A kind of run in which a node group is updated while services run, under the usual faults and
// some of Auto Scaling. The checks of the general run apply; [upgradeChecker] adds those of
// updates.

const (
	groupName    = "nodes"
	providerName = "provider"
	firstImage   = "ami-0"
	// upgradeSpan is how long actions and faults last.
	upgradeSpan = 90 * time.Minute
	// Without faults an update may take longestUpdate, and longestNode for each node.
	longestUpdate, longestNode = 150 * time.Minute, 8 * time.Minute
)

// A NodePool is the shape of a node group and the configuration of its updates.
type NodePool struct {
	Zones, Nodes int // nodes per zone
	Fewer        int // nodes fewer than that, in all
	// AboveDesired is by how much the group's maximum is above its desired capacity, BelowDesired
	// by how much its minimum is below it.
	AboveDesired, BelowDesired int
	Config                     cluster.UpdateConfig
	// UpgradeDomains is how many upgrade domains the nodes are in, 0 for none.
	UpgradeDomains int
	// ManagedScaling sizes the group by a capacity provider that services use.
	ManagedScaling bool
	// OtherInstances is how many instances the cluster has besides the group.
	OtherInstances int
	// RebalancesZones means that the group balances its zones itself and terminates instances with
	// tasks.
	RebalancesZones bool
}

// drawNodePool draws the shape of a seed's node group. Most are small; a few have the 100 nodes of
// the example in the EKS user guide.
func drawNodePool(rng *rand.Rand) NodePool {
	p := NodePool{
		Zones: 1 + rng.IntN(3), Nodes: 1 + rng.IntN(3), AboveDesired: rng.IntN(4), BelowDesired: rng.IntN(2),
		Config: cluster.UpdateConfig{MaxUnavailable: []int{0, 1, 2, 3}[rng.IntN(4)]}, ManagedScaling: rng.IntN(4) == 0,
	}
	if rng.IntN(4) == 0 {
		p.Config = cluster.UpdateConfig{MaxUnavailablePercentage: []int{10, 50, 100}[rng.IntN(3)]}
	}
	if rng.IntN(5) == 0 {
		p.Config.Strategy, p.ManagedScaling = cluster.UpdateMinimal, false
	}
	if rng.IntN(6) == 0 {
		p.UpgradeDomains = 2 + rng.IntN(2)
	}
	if p.Zones*p.Nodes < 3 || p.Config.Strategy == cluster.UpdateMinimal || rng.IntN(4) == 0 {
		p.OtherInstances = 2
	}
	if p.ManagedScaling {
		p.OtherInstances = 0 // the model of services knows no capacity providers
	}
	p.RebalancesZones = rng.IntN(6) == 0
	if rng.IntN(400) == 0 {
		p.Zones, p.Nodes, p.Config = 5, 20, cluster.UpdateConfig{MaxUnavailable: 20}
	}
	return p
}

// maxUnavailable returns how many nodes may be out of service at once (N1).
func (p NodePool) maxUnavailable(of int) int {
	n := p.Config.MaxUnavailable
	if p.Config.MaxUnavailablePercentage > 0 {
		n = of * p.Config.MaxUnavailablePercentage / 100
	}
	return min(max(n, 1), 100)
}

// surge returns how many nodes an upgrade adds (N2).
func (p NodePool) surge(of int) int {
	if p.Config.Strategy == cluster.UpdateMinimal {
		return 0
	}
	return max(2*p.Zones, p.maxUnavailable(of))
}

// count returns how many nodes the group has.
func (p NodePool) count() int { return p.Zones*p.Nodes - p.Fewer }

func (p NodePool) sizes() cluster.Sizes {
	n := p.count()
	return cluster.Sizes{Min: max(0, n-p.BelowDesired), Max: n + p.AboveDesired, Desired: n}
}

// machine returns the machine that the pool launches.
func (p NodePool) machine() ec2.Machine {
	m := machine
	m.Zones = nil
	for z := range p.Zones {
		m.Zones = append(m.Zones, fmt.Sprintf("us-east-1%c", 'a'+z))
	}
	if p.ManagedScaling {
		m.Provider = providerName
	}
	return m
}

// An upgradeWorld is the part of a world that concerns its node group.
type upgradeWorld struct {
	*World
	pool            NodePool
	nodeChecker     *upgradeChecker
	lastImage       int // the last image's number
	domainsAssigned int // instances with an upgrade domain so far
	// unblockers end what keeps tasks on nodes.
	unblockers       []func()
	deniedOperations map[string]bool // operations refused for lack of rights
	launchOverride   func() autoscaling.LaunchFault
	agentsLeave      bool // agents leave as soon as they have come
	groupLost        bool // the group or its launch template was deleted
	// changeCalls counts the calls of node-group-upgrade that change something. The function dies
	// after call dieAfter.
	changeCalls, dieAfter int
}

// nodePool returns the shape of the run's node group.
func (w *World) nodePool() NodePool {
	if w.NodePool != nil {
		return *w.NodePool
	}
	return drawNodePool(rand.New(rand.NewPCG(w.Seed, 0x706f6f6c)))
}

func newUpgradeWorld(w *World, p NodePool) *upgradeWorld {
	u := &upgradeWorld{World: w, pool: p, deniedOperations: map[string]bool{}}
	u.nodeChecker = newUpgradeChecker(u)
	u.nodeChecker.disturbed, u.nodeChecker.drainBlocked = p.RebalancesZones, p.RebalancesZones
	return u
}

// createNodeGroup creates the cluster and its node group, and waits until the node group is ACTIVE.
func (u *upgradeWorld) createNodeGroup() error {
	ctx := context.Background()
	if _, err := u.EnsureCluster(ctx, clusterName, u.pool.OtherInstances, machine); err != nil {
		return err
	}
	if err := u.createTargetGroups(); err != nil {
		return err
	}
	u.registerDefinitions()
	s := u.pool.sizes()
	arn, err := u.AWS.Groups.AddGroup(autoscaling.GroupSpec{
		Name: groupName, Cluster: clusterName, Machine: u.pool.machine(), Min: s.Min, Max: s.Max, Desired: s.Desired,
		Image:    firstImage,
		Protects: u.pool.ManagedScaling, Rebalances: u.pool.RebalancesZones,
		Tags: map[string]string{handler.OwnerTag: installation.Name},
	})
	if err != nil {
		return err
	}
	u.AWS.Groups.SetLaunchFaults(u.drawLaunchFault)
	u.Runtime.Start()
	u.runUntil(u.Loop.Now().Add(time.Minute))
	if u.pool.ManagedScaling {
		if err := u.createProvider(arn); err != nil {
			return err
		}
	}
	if _, err := u.API.NodeGroups.CreateNodeGroup(ctx, operation.CreateNodeGroup{
		Cluster: clusterName, Name: groupName, AutoScalingGroup: groupName, Config: u.pool.Config, Params: "p",
		Labels: map[string]string{"team": "a"},
	}); err != nil {
		return err
	}
	for range 10 {
		if g := u.nodeGroup(); g != nil && g.Status == cluster.NodeGroupActive {
			u.nodeChecker.startChecking()
			return nil
		}
		u.runUntil(u.Loop.Now().Add(time.Minute))
	}
	return fmt.Errorf("the node group is %+v", u.nodeGroup())
}

// createProvider creates a capacity provider with managed scaling for the group.
func (u *upgradeWorld) createProvider(arn string) error {
	p := &cluster.CapacityProvider{
		Name: providerName, Group: groupName, GroupARN: arn, Protection: true, Draining: u.Seed%2 == 0,
		Scaling: cluster.DefaultScaling,
	}
	p.Scaling.Enabled = true
	if _, err := u.API.CapacityProviders.CreateCapacityProvider(context.Background(), p); err != nil {
		return err
	}
	_, err := u.API.ClusterProviders.PutClusterProviders(context.Background(), clusterName, []string{providerName},
		[]cluster.ProviderShare{{Provider: providerName, Weight: 1}})
	return err
}

func (u *upgradeWorld) nodeGroup() *cluster.NodeGroup {
	g, _ := u.checker.Rows[state.NodeGroupKey(clusterName, groupName)].(*cluster.NodeGroup)
	return g
}

// lastUpdate returns the row of the last update, or nil before the first.
func (u *upgradeWorld) lastUpdate() *cluster.Update {
	g := u.nodeGroup()
	if g == nil || g.Update == "" {
		return nil
	}
	row, _ := u.checker.Rows[state.UpdateKey(clusterName, groupName, g.Update)].(*cluster.Update)
	return row
}

// runUpgrades lets services come to rest, runs the history under faults, and then updates the group
// until an update succeeds. Then everything must converge.
func (u *upgradeWorld) runUpgrades() {
	u.faults.active = false
	if err := u.createNodeGroup(); err != nil {
		u.checker.Fail("making the node group: %v", err)
		return
	}
	u.createServices()
	u.runUntil(u.Loop.Now().Add(5 * time.Minute))
	u.faults.active = true
	begin := u.Loop.Now()
	for n, a := range u.Actions {
		u.Loop.After(a.At, func() {
			u.logf("action %d: %s", n, a)
			u.perform(a)
		})
	}
	u.runUntil(begin.Add(upgradeSpan))
	u.historySpan = u.Loop.Now().Sub(epoch)
	u.endFaults()
	u.removeBlocks()
	u.checkUpdateSucceeds()
	if len(u.checker.Broken) == 0 {
		u.checkNodesConverge()
	}
}

// createServices creates one or two services, and a daemon in most runs. Their percentages let
// tasks leave nodes.
func (u *upgradeWorld) createServices() {
	nodes := u.pool.count()
	for n := range 1 + u.rng.IntN(2) {
		p := [][2]int{{100, 200}, {50, 200}, {0, 100}}[u.rng.IntN(3)]
		u.createReplicas(fmt.Sprint("s", n), []string{"checked:1", "small:1"}[u.rng.IntN(2)], 1+u.rng.IntN(2*nodes), p)
	}
	if u.rng.IntN(4) > 0 {
		u.client.createPlainService("d", "checked:1", 0, true)
	}
}

// createReplicas creates a REPLICA service.
func (u *upgradeWorld) createReplicas(name, definition string, desired int, percents [2]int) {
	s := &expectedService{name: name, desired: desired, exists: true, definition: definition, rules: &cluster.Rules{}}
	spec := operation.CreateService{
		Cluster: clusterName, Name: name, TaskDefinition: definition, Desired: &s.desired, Token: name, Params: name,
		MinHealthy: &percents[0], MaxPercent: &percents[1],
	}
	spec.ZoneRebalancing = new(bool) // it would move tasks back and forth
	u.client.callUntilAnswered("create "+name, func(ctx context.Context) error {
		_, err := u.API.Services.CreateService(ctx, spec)
		return err
	}, func(err error) {
		if err != nil {
			u.checker.Fail("creating service %s: %v", name, err)
			return
		}
		u.client.services = append(u.client.services, s)
	})
}

// removeBlocks ends what keeps tasks from leaving nodes.
func (u *upgradeWorld) removeBlocks() {
	for _, end := range u.unblockers {
		end()
	}
	stop := func() {
		for _, id := range u.client.taskIDs {
			u.client.stopTaskByID(id)
		}
	}
	for n := range 6 { // some tasks may only just have been requested
		u.Loop.After(time.Duration(n)*5*time.Minute, stop)
	}
	u.unblockers, u.launchOverride = nil, nil
	clear(u.deniedOperations)
	for _, s := range u.client.services {
		u.Loop.After(time.Minute, func() { u.limitDesired(s) })
	}
}

// limitDesired reduces a service to one task per node, so that there is room whichever node drains.
func (u *upgradeWorld) limitDesired(s *expectedService) {
	n := u.pool.count()
	switch {
	case s.daemon || s.desired <= n:
	case s.busy:
		u.Loop.After(5*time.Second, func() { u.limitDesired(s) })
	default:
		u.client.updateService(s, operation.UpdateService{Desired: &n}, func() { s.desired = n })
	}
}

// checkUpdateSucceeds runs updates until one succeeds. The update in progress may still suffer from
// past faults; the second one after it must not.
func (u *upgradeWorld) checkUpdateSucceeds() {
	u.runUntil(u.Loop.Now().Add(30 * time.Minute)) // services that were throttled try again
	u.awaitUpdateEnd()
	for try := 0; len(u.checker.Broken) == 0; try++ {
		if last := u.lastUpdate(); last != nil && last.Status == cluster.UpdateSuccessful {
			return
		}
		if try > 1 {
			u.checker.Fail("invariant 8: the update failed again without faults: %+v", u.lastUpdate().Errors)
			return
		}
		u.nodeChecker.mustSucceed = try > 0
		u.requestUpdate(operation.UpdateNodeGroupVersion{ReleaseVersion: imageID(max(u.lastImage, 1))})
		u.runUntil(u.Loop.Now().Add(time.Minute))
		u.awaitUpdateEnd()
	}
}

// awaitUpdateEnd lets time pass until no update is in progress.
func (u *upgradeWorld) awaitUpdateEnd() {
	limit := u.Loop.Now().Add(longestUpdate + time.Duration(u.pool.count())*longestNode)
	for len(u.checker.Broken) == 0 {
		last := u.lastUpdate()
		if last == nil || last.HasEnded() {
			return
		}
		if u.Loop.Now().After(limit) {
			u.checker.Fail("invariant 8: without faults the update is stuck in phase %s and waits for %s", last.Phase,
				last.WaitingFor)
			return
		}
		u.runUntil(u.Loop.Now().Add(time.Minute))
	}
}

// checkNodesConverge lets the cluster come to rest and checks that it has.
func (u *upgradeWorld) checkNodesConverge() {
	for range 3 {
		u.checker.Broken = nil
		u.runUntil(u.Loop.Now().Truncate(time.Hour).Add(time.Hour + afterSweep))
		if len(u.checker.Broken) > 0 {
			return
		}
		u.nodeChecker.checkNodesAtRest()
		u.checkConverged()
		if len(u.checker.Broken) == 0 {
			return
		}
	}
}

func imageID(n int) string { return fmt.Sprint("ami-", n) }

// requestUpdate requests an update as a client does: again and again until it is answered.
func (u *upgradeWorld) requestUpdate(change operation.UpdateNodeGroupVersion) {
	change.Cluster, change.NodeGroup = clusterName, groupName
	change.Token = fmt.Sprint("update", u.Loop.Now().UnixNano())
	change.Params = fmt.Sprint(change.ReleaseVersion, change.Force, change.ForceProtected)
	u.client.callUntilAnswered("update to "+change.ReleaseVersion, func(ctx context.Context) error {
		_, err := u.API.NodeGroups.UpdateNodeGroupVersion(ctx, change)
		return err
	}, func(err error) {
		switch code := cluster.ErrorCode(err); {
		case err == nil:
		case code == cluster.CodeResourceInUse:
			u.cover(coverage.InUse)
		default:
			u.checker.Fail("invariant 9: an update was requested, and the answer is %v", err)
		}
	})
}
