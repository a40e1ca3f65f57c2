package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/sim/ec2"
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/invariant"
)

// Actions on placement rules and configuration. What they set is drawn from the action's Pick.

// moveCosts are the costs that services are drawn from. VeryHigh differs from High only in balancing,
// which is off here.
var moveCosts = []cluster.MoveCost{cluster.CostZero, cluster.CostLow, cluster.CostMedium, cluster.CostHigh}

// newDraw returns the source of random numbers of one action.
func newDraw(pick uint64) *rand.Rand { return rand.New(rand.NewPCG(pick, 0x72756c65)) }

// pickKey returns one of the keys.
func pickKey[V any](r *rand.Rand, of map[string]V) string {
	keys := slices.Sorted(maps.Keys(of))
	return keys[r.IntN(len(keys))]
}

var placementStrategies = [][]cluster.PlacementStrategy{
	{{Type: cluster.StrategyRandom}},
	{{Type: cluster.StrategyBinpack, Field: "MEMORY"}},
	{{Type: cluster.StrategySpread, Field: "attribute:ecs.availability-zone"},
		{Type: cluster.StrategyBinpack, Field: "CPU"}},
	{{Type: cluster.StrategySpread, Field: "attribute:disk"}, {Type: cluster.StrategySpread, Field: "instanceId"},
		{Type: cluster.StrategyRandom}},
	{{Type: cluster.StrategySpread, Field: "host"}, {Type: cluster.StrategyBinpack, Field: "MEMORY"}},
}

// metricSets are the initial loads of tasks. The last one exceeds every capacity.
var metricSets = [][]cluster.Metric{
	{{Name: "conns", Load: 20, Weight: cluster.WeightHigh}},
	{{Name: "conns", Load: 35}, {Name: "io", Load: 3, Weight: cluster.WeightLow}},
	{{Name: "conns", Load: 0}, {Name: "io", Load: 6}},
	{{Name: "io", Load: 4}, {Name: "conns", Load: 15}},
	{{Name: "conns", Load: 45, Weight: cluster.WeightZero}},
	{{Name: "conns", Load: 30}, {Name: "io", Load: 5, Weight: cluster.WeightMedium}},
	{{Name: "conns", Load: 5000}},
}

// domainPolicies contains quorum safety more often than the others because it seldom binds.
var domainPolicies = append([]cluster.DomainPolicy{cluster.PolicyQuorum, cluster.PolicyQuorum},
	cluster.DomainPolicies...)

// drawRules draws the rules of a service. A quarter of the services have none.
func drawRules(pick uint64, daemon bool) (out cluster.Rules) {
	r := newDraw(pick)
	if r.IntN(4) == 0 {
		return out
	}
	if r.IntN(3) == 0 {
		out.Constraints = drawConstraints(r, daemon)
	}
	if r.IntN(5) < 2 {
		out.NodeConstraint = pickKey(r, invariant.NodeExpressions)
	}
	if r.IntN(3) > 0 {
		out.Metrics = slices.Clone(metricSets[r.IntN(len(metricSets))])
	}
	if daemon {
		if invariant.NodeExpressions[out.NodeConstraint].Policy != "" {
			out.NodeConstraint = ""
		}
		return out
	}
	if r.IntN(3) == 0 {
		out.Strategies = slices.Clone(placementStrategies[r.IntN(len(placementStrategies))])
	}
	if r.IntN(2) == 0 {
		out.DomainPolicy = domainPolicies[r.IntN(len(domainPolicies))]
	}
	if r.IntN(4) == 0 {
		out.MoveCost = moveCosts[r.IntN(len(moveCosts))]
	}
	if r.IntN(4) == 0 {
		out.Scoring = "least-fragmentation"
	}
	return out
}

// drawConstraints draws one or two constraints. A DAEMON service gets none that depends on other
// tasks, because it could exclude itself.
func drawConstraints(r *rand.Rand, daemon bool) (out []cluster.PlacementConstraint) {
	if !daemon && r.IntN(3) == 0 {
		out = append(out, cluster.PlacementConstraint{Type: cluster.DistinctInstance})
	}
	x := pickKey(r, invariant.MemberOfExpressions)
	if c := (cluster.PlacementConstraint{Type: cluster.MemberOf, Expression: x}); !daemon ||
		!invariant.DependsOnOtherTasks(c) {
		out = append(out, c)
	}
	return out
}

// drawTaskRules draws the rules of a RunTask; half of the requests have none.
func drawTaskRules(pick uint64) (out cluster.Rules) {
	r := newDraw(pick)
	if r.IntN(2) == 0 {
		return out
	}
	if r.IntN(2) == 0 {
		out.Constraints = drawConstraints(r, false)
	}
	if r.IntN(3) == 0 {
		out.Strategies = slices.Clone(placementStrategies[r.IntN(len(placementStrategies))])
	}
	if r.IntN(2) == 0 {
		out.Metrics = slices.Clone(metricSets[r.IntN(len(metricSets))])
	}
	return out
}

// sameRules compares rules as rows store them, without empty lists.
func sameRules(a, b cluster.Rules) bool { return rulesText(a) == rulesText(b) }

// rulesText formats rules for the log.
func rulesText(rules cluster.Rules) string {
	text, _ := json.Marshal(rules) // strings and numbers: it cannot fail
	return string(text)
}

// coverRefusedRules covers that rules were refused.
func (c *apiClient) coverRefusedRules(rules cluster.Rules, err error) {
	if cluster.ErrorCode(err) == cluster.CodeInvalidParameter && !rules.IsEmpty() {
		c.world.cover(coverage.RulesRefused)
	}
}

// changeRules changes the rules of a service: by Berth's operation, by tags, or by UpdateService.
func (c *apiClient) changeRules(a Action) {
	s := c.pickService(a)
	if s == nil || s.hasProviders {
		return
	}
	if len(c.world.runningTasksOf(s)) > 0 {
		c.world.cover(coverage.Rules)
	}
	s.rulesChanged = true
	next := drawRules(a.Pick/7, s.daemon)
	c.world.logf("rules of %s: %s, in way %d", s.name, rulesText(next), a.N%3)
	if a.N%3 == 0 {
		c.updateService(s, operation.UpdateService{Constraints: &next.Constraints, Strategies: &next.Strategies},
			func() {
				if s.rules != nil {
					was := *s.rules
					was.Constraints, was.Strategies = next.Constraints, next.Strategies
					s.rules = &was
				}
			})
		return
	}
	tags := map[string]string{
		cluster.TagDomainPolicy: string(next.DomainPolicy), cluster.TagConstraint: next.NodeConstraint,
		cluster.TagMetrics: cluster.MetricsText(next.Metrics), cluster.TagMoveCost: string(next.MoveCost),
		cluster.TagStrategy: next.Scoring,
	}
	c.changeService(s, func(ctx context.Context) error {
		if a.N%3 == 1 {
			return c.world.API.Tags.TagResource(ctx, cluster.ResourceARN{Kind: "service", Cluster: clusterName,
				Name: s.name}, tags, nil)
		}
		_, err := c.world.API.Services.UpdateRules(ctx, clusterName, s.name, tags)
		return err
	}, func() {
		if s.rules != nil {
			next.Constraints, next.Strategies = s.rules.Constraints, s.rules.Strategies
			next.Tolerations, next.Application = s.rules.Tolerations, s.rules.Application
			s.rules = &next
		}
	})
}

// runningTasksOf returns the service's RUNNING tasks that are not being stopped, sorted by id.
func (w *World) runningTasksOf(s *expectedService) (out []*cluster.Task) {
	row, ok := w.serviceRow(s.name)
	if !ok {
		return nil
	}
	for _, t := range w.checker.ByOwner[row.Short] {
		if t.IsActive() && t.Last == cluster.TaskRunning {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Task) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// changeConfiguration sets the cluster's configuration for placement.
func (c *apiClient) changeConfiguration(a Action) {
	config := drawConfiguration(newDraw(a.Pick))
	c.world.switchBalancing(config, a.Pick)
	if c.configuration != nil {
		config.Applications = c.configuration.Applications
	}
	c.configure(config)
}

// configure puts the configuration, unless another one is under way.
func (c *apiClient) configure(config *cluster.Configuration) {
	if c.configuring {
		return
	}
	c.configuring, c.configuration = true, nil
	c.world.logf("configuration: %s", jsonText(config))
	c.callUntilAnswered("configure",
		func(ctx context.Context) error { return c.world.API.Configurations.PutConfiguration(ctx, config) },
		func(err error) {
			c.configuring = false
			if err != nil {
				c.world.checker.Fail("invariant 9: the configuration %+v was refused: %v", config, err)
				return
			}
			c.configuration = config
			c.world.cover(coverage.Configured)
		})
}

func drawConfiguration(r *rand.Rand) *cluster.Configuration {
	c := &cluster.Configuration{Head: cluster.Head{Cluster: clusterName}, NodeTypes: map[string]cluster.NodeType{
		"Blue": {Capacities: map[string]int64{"conns": int64(40 + 10*r.IntN(3)), "io": 7},
			Properties: map[string]string{"Tier": "2"}},
		"Green": {Capacities: map[string]int64{"io": 6}, Properties: map[string]string{"HasSSD": "true"}},
	}}
	switch r.IntN(6) {
	case 0, 1, 2:
		c.Buffer = map[string]float64{"conns": 0.45, "io": 0.5}
	case 3:
		c.Overbooking = map[string]float64{"conns": 0.5, "io": -1}
	case 4:
		c.Buffer, c.Overbooking = map[string]float64{"conns": 0.1}, map[string]float64{"io": 0.15}
	}
	if r.IntN(4) == 0 {
		c.DomainPolicy = []cluster.DomainPolicy{cluster.PolicyAdaptive, cluster.PolicyNone,
			cluster.PolicyDifference}[r.IntN(3)]
	}
	if r.IntN(3) == 0 {
		priority := func() cluster.Priority { return cluster.Priority([]int{0, 0, 1, 2, -1}[r.IntN(5)]) }
		c.Priorities = cluster.Priorities{Placement: priority(), Capacity: priority(), FaultDomain: priority(),
			UpgradeDomain: priority()}
	}
	c.QuorumFault, c.QuorumUpgrade, c.NoSwitch, c.KeepInPlace = r.IntN(6) == 0, r.IntN(6) == 0, r.IntN(6) == 0,
		r.IntN(3) == 0
	return c
}

// switchBalancing switches balancing on in a run that is about it. Looks follow each other more
// closely than by default, so that a history has many of them.
func (w *World) switchBalancing(c *cluster.Configuration, pick uint64) {
	if !w.Balance {
		return
	}
	r := newDraw(pick + 1)
	c.Rebalancing = &cluster.Rebalancing{Enabled: true, SettleSeconds: 5, IntervalSeconds: 20,
		MovesAtOnce: 1 + r.IntN(6), ServiceMovesAtOnce: 1 + r.IntN(3)}
	if r.IntN(2) == 0 {
		c.Rebalancing.Weights = map[string]float64{"CPU": 1, "conns": 0.5}
	}
	if r.IntN(2) == 0 {
		c.Rebalancing.WindowSeconds, c.Rebalancing.MovesInWindow = 300, 1+r.IntN(9)
	}
}

// sameConfiguration compares configurations without what every row has.
func sameConfiguration(a, b *cluster.Configuration) bool {
	x, y := *a, *b
	x.Head, y.Head = cluster.Head{}, cluster.Head{}
	return reflect.DeepEqual(x, y)
}

// reportLoads reports loads of tasks: by the operation or by events.
func (w *World) reportLoads(a Action) {
	var reports []cluster.LoadReport
	r := newDraw(a.Pick)
	for _, s := range w.client.services {
		for _, t := range w.runningTasksOf(s) {
			if len(w.checker.DefaultLoads(t)) > 0 && r.IntN(2) == 0 && len(reports) < 3 {
				reports = append(reports, cluster.LoadReport{Task: t.ID,
					Loads: drawLoads(r, w.checker.DefaultLoads(t))})
			}
		}
	}
	if len(reports) == 0 {
		return
	}
	w.logf("loads: %+v", reports)
	if a.N%2 == 0 {
		w.client.callUntilAnswered("report loads", func(ctx context.Context) error {
			_, err := w.API.Loads.ReportLoads(ctx, clusterName, reports)
			return err
		}, func(err error) { // a metric may have been removed meanwhile
			if err == nil {
				w.cover(coverage.LoadOperation)
			}
		})
		return
	}
	for _, report := range reports {
		arn := "arn:aws:ecs:us-east-1:123456789012:task/" + clusterName + "/" + report.Task
		if w.putOn("LoadBus", busEvent{ownAccount, "berth.load", "Task Load Report", "load",
			map[string]any{"taskArn": arn, "loads": report.Loads}}) == nil {
			w.cover(coverage.LoadEvent)
		}
	}
}

func drawLoads(r *rand.Rand, metrics []cluster.Metric) map[string]int64 {
	out := map[string]int64{}
	for _, m := range metrics {
		if r.IntN(3) > 0 || len(metrics) == 1 {
			out[m.Name] = int64(r.IntN(8)) * 10
		}
	}
	if len(out) == 0 {
		out[metrics[0].Name] = 1
	}
	return out
}

// drawMachine draws a machine with fault and upgrade domains, a node type and capacities of
// metrics.
func drawMachine(r *rand.Rand) ec2.Machine {
	m := machine
	if r.IntN(3) == 0 {
		m = diskMachine
	}
	attributes := map[string]string{}
	maps.Copy(attributes, m.Attributes)
	attributes["berth.fault-domain"] = faultDomains[r.IntN(len(faultDomains))]
	attributes["berth.upgrade-domain"] = upgradeDomains[r.IntN(len(upgradeDomains))]
	if kind := r.IntN(3); kind > 0 {
		attributes["berth.node-type"] = []string{"", "Blue", "Green"}[kind]
	}
	if tier := r.IntN(4); tier > 0 {
		attributes["berth.property.Tier"] = []string{"", "1", "2.0", "3"}[tier]
	}
	m.Attributes = attributes
	if r.IntN(6) > 0 {
		m.Type, m.Metrics, m.ENIs = "sim.metric", map[string]int64{"conns": 50, "io": 8}, 2
	}
	return m
}

var (
	faultDomains   = []string{"fd:/dc0/r0", "fd:/dc0/r1", "fd:/dc1/r0", "fd:/dc1/r1", "fd:/dc2"}
	upgradeDomains = []string{"u0", "u1", "u2"}
)

// changePlacementAttribute changes one of Berth's own attributes of an instance.
func (w *World) changePlacementAttribute(a Action) {
	i := w.pickInstance(a)
	if i == nil {
		return
	}
	r := newDraw(a.Pick)
	name, value := "berth.unschedulable", "upgrade"
	switch r.IntN(8) {
	case 0:
		name, value = "berth.fault-domain", faultDomains[r.IntN(len(faultDomains))]
	case 1:
		name, value = "berth.upgrade-domain", upgradeDomains[r.IntN(len(upgradeDomains))]
	case 2:
		name, value = "berth.node-type", []string{"Blue", "Green", "Red"}[r.IntN(3)]
	case 3, 4:
		name, value = "berth.property.Tier", []string{"1", "2.0", "3"}[r.IntN(3)]
	case 5:
		name, value = "berth.property.HasSSD", []string{"true", "false"}[r.IntN(2)]
	}
	op := "PutAttributes"
	if _, has := i.Attributes[name]; has && (name == "berth.unschedulable" || r.IntN(3) == 0) {
		op, value = "DeleteAttributes", i.Attributes[name]
	}
	if name == "berth.unschedulable" && op == "PutAttributes" && len(w.runningTasks(i.ID)) > 0 {
		w.cover(coverage.Cordoned)
	}
	w.logf("%s of %s: %s %s", op, i.ID, name, value)
	w.changeInstance(a, op, map[string]any{"cluster": clusterName, "attributes": []map[string]string{{
		"name": name, "value": value, "targetId": i.ID, "targetType": "container-instance",
	}}})
}

// uncordonInstance makes a cordoned instance schedulable again.
func (w *World) uncordonInstance(a Action) {
	for _, i := range w.instances() {
		if invariant.IsCordoned(i) {
			w.changeInstance(a, "DeleteAttributes", map[string]any{"cluster": clusterName,
				"attributes": []map[string]string{{
					"name": "berth.unschedulable", "targetId": i.ID, "targetType": "container-instance",
				}}})
			return
		}
	}
}
