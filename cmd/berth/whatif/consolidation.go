package whatif

import (
	"io"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/scaling"
	"berth/shared/snapshot"
)

// ConsolidationAnswer is what consolidation would do, by capacity provider.
type ConsolidationAnswer struct {
	Providers []ProviderPlan `json:"capacityProviders"`
}

// ProviderPlan is what consolidation would do with a capacity provider's instances.
type ProviderPlan struct {
	Provider string `json:"capacityProvider"`
	Group    string `json:"autoScalingGroup"`
	Enabled  bool   `json:"enabled"` // whether consolidation is on
	Managed  bool   `json:"managedScaling"`
	// Why explains why there is no plan. It is empty if Instances explains it.
	Why string `json:"why,omitempty"`
	// Percent and Window are the disruption budget: at most this share of the group starts to be
	// emptied within this time.
	Percent int    `json:"percent"`
	Window  string `json:"window"`
	// Instances are those with tasks of services, the cheapest to empty first.
	Instances []InstancePlan `json:"instances"`
	// Draining are the container instances that are being emptied already.
	Draining []string `json:"draining"`
}

// InstancePlan is what consolidation would do with an instance and its tasks. Cost is that of
// stopping its tasks; consolidation empties the cheapest instances first.
type InstancePlan struct {
	Instance string     `json:"instance"`
	EC2      string     `json:"ec2InstanceId"`
	Cost     int        `json:"cost"`
	Fits     bool       `json:"fits"`
	Drain    bool       `json:"drain"` // now; if Fits is set and this is not, the budget is used up
	Moves    []TaskMove `json:"moves"`
	Why      string     `json:"why"`
}

// TaskMove is where a task would run instead.
type TaskMove struct {
	Task    string `json:"task"`
	Service string `json:"service"`
	To      string `json:"to"`
}

// PlanConsolidation returns what consolidation would do now with the instances of a capacity
// provider, or of all providers if the name is empty, whether it is switched on or not.
func PlanConsolidation(
	snap *snapshot.Snapshot, k *Capacity, provider string, now time.Time,
) (*ConsolidationAnswer, error) {
	if provider != "" && k.Providers[provider] == nil {
		return nil, &NotFound{"capacity provider", provider, slices.Collect(maps.Keys(k.Providers))}
	}
	out := &ConsolidationAnswer{Providers: []ProviderPlan{}}
	for _, name := range slices.Sorted(maps.Keys(k.Providers)) {
		if provider == "" || name == provider {
			out.Providers = append(out.Providers, k.planProvider(snap, k.Providers[name], now))
		}
	}
	return out, nil
}

// planProvider returns the plan of one provider. Each early return is a state in which managed
// scaling would not consolidate at all.
func (k *Capacity) planProvider(snap *snapshot.Snapshot, p *cluster.CapacityProvider, now time.Time) ProviderPlan {
	s := p.Scaling
	out := ProviderPlan{
		Provider: p.Name, Group: p.Group, Enabled: s.Consolidation.Enabled, Managed: s.Enabled,
		Percent: s.Consolidation.BudgetPercent,
		Window:  s.Consolidation.BudgetWindow.String(), Instances: []InstancePlan{}, Draining: []string{},
	}
	switch {
	case !s.Enabled:
		out.Why = "managed scaling is off"
		return out
	case p.GroupProblem != "":
		out.Why = p.GroupProblem
		return out
	case k.Groups[p.Group] == nil:
		out.Why = "Auto Scaling group " + p.Group + " does not exist"
		return out
	}
	names := newModel(snap).serviceNames()
	for _, c := range scaling.PlanConsolidation(k.scalingInput(snap, p, now)) {
		e := InstancePlan{Instance: c.Instance, EC2: c.EC2InstanceID, Cost: c.Cost, Fits: c.Fits, Drain: c.Drain,
			Moves: []TaskMove{}, Why: c.Why}
		for _, m := range c.Moves {
			e.Moves = append(e.Moves, TaskMove{m.Task, names[m.Owner], m.To})
		}
		out.Instances = append(out.Instances, e)
	}
	// Instances that are being emptied are not in the plan: managed scaling remembers them.
	if h := k.Histories[p.Name]; h != nil {
		for _, d := range h.Drains {
			if !d.Finished && !d.Cancelled {
				out.Draining = append(out.Draining, d.Instance)
			}
		}
	}
	if len(out.Instances)+len(out.Draining) == 0 {
		out.Why = "no instance has tasks that could move"
	}
	return out
}

// Print writes the plans for people.
func (a *ConsolidationAnswer) Print(w io.Writer) error {
	p := &printer{w: w}
	if len(a.Providers) == 0 {
		p.printLine("The cluster has no capacity provider.")
	}
	for i := range a.Providers {
		p.printProvider(&a.Providers[i])
	}
	return p.err
}

// printProvider writes a plan: what consolidation does in general, then instance by instance.
func (p *printer) printProvider(a *ProviderPlan) {
	state := "off"
	if a.Enabled {
		state = "on"
	}
	p.printLine("Capacity provider %s (Auto Scaling group %s): consolidation is %s, with %d %% of the group in %s.",
		a.Provider, a.Group, state, a.Percent, a.Window)
	if a.Why != "" {
		p.printLine("  Nothing would be emptied: %s.", a.Why)
	}
	for _, id := range a.Draining {
		p.printLine("  %s is being emptied.", id)
	}
	for _, e := range a.Instances {
		what := "stays"
		switch {
		case e.Drain:
			what = "would be emptied now"
		case e.Fits:
			what = "would be emptied later"
		}
		p.printLine("  %s (%s) %s: %s.", e.Instance, e.EC2, what, e.Why)
		for _, m := range e.Moves {
			p.printLine("    task %s of service %s to %s", m.Task, m.Service, m.To)
		}
	}
}
