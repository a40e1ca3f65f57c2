package managedscaling

import (
	"context"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
)

// maxAge is how old the capacity providers and groups of a pass may be when a cluster is decided
// about. A pass over many clusters reads them again.
const maxAge = 5 * time.Second

// A pass is one invocation: what is read once for all clusters, and the values of their metrics.
type pass struct {
	*Handler
	providers map[string]*cluster.CapacityProvider // by name, deleted ones left out
	groups    map[string]*cluster.AutoScalingGroup // by name; nil until they are described
	readAt    time.Time
	visited   map[string]bool // clusters; nil for all that have providers
	points    []datapoint
}

// newPass reads the capacity providers.
func (h *Handler) newPass(ctx context.Context) (*pass, error) {
	p := &pass{Handler: h}
	return p, p.readProviders(ctx)
}

func (p *pass) readProviders(ctx context.Context) error {
	all, err := handler.ListProviders(ctx, p.State)
	if err != nil {
		return err
	}
	p.providers, p.groups, p.readAt = map[string]*cluster.CapacityProvider{}, nil, p.Clock.Now()
	for _, row := range all {
		if !row.Inactive {
			p.providers[row.Name] = row
		}
	}
	return nil
}

// describeVisited describes the groups of the clusters visited in one request, because a request
// waits for Auto Scaling as long for one group as for fifty. If it fails, they stay unknown.
func (p *pass) describeVisited(ctx context.Context) {
	if p.groups != nil {
		return
	}
	var names []string
	for _, row := range p.providers {
		if slices.ContainsFunc(row.Clusters, p.visits) {
			names = append(names, row.Group)
		}
	}
	slices.Sort(names)
	if found, err := p.Groups.DescribeGroups(ctx, slices.Compact(names)); err == nil {
		p.groups = groupsByName(found)
	}
}

// describeGroups returns the groups that exist, by name. If one is not known, it describes these
// groups alone.
func (p *pass) describeGroups(ctx context.Context, names []string) (map[string]*cluster.AutoScalingGroup, error) {
	known := map[string]*cluster.AutoScalingGroup{}
	for _, name := range names {
		if p.groups[name] == nil {
			found, err := p.Groups.DescribeGroups(ctx, names)
			return groupsByName(found), err
		}
		known[name] = p.groups[name]
	}
	return known, nil
}

func (p *pass) visits(clusterName string) bool { return p.visited == nil || p.visited[clusterName] }

func groupsByName(groups []*cluster.AutoScalingGroup) map[string]*cluster.AutoScalingGroup {
	byName := map[string]*cluster.AutoScalingGroup{}
	for _, g := range groups {
		byName[g.Name] = g
	}
	return byName
}

// clustersAmong returns those of the clusters that have capacity providers, sorted as they were. A
// provider names its clusters until everything that was made for it there is removed.
func (p *pass) clustersAmong(names []string) (having []string) {
	has := map[string]bool{}
	for _, row := range p.providers {
		for _, name := range row.Clusters {
			has[name] = true
		}
	}
	for _, name := range names {
		if has[name] {
			having = append(having, name)
		}
	}
	return having
}

// clustersWithAlarms returns the clusters that have a capacity provider with one of these alarms.
func (p *pass) clustersWithAlarms(alarms map[string]bool) (names []string) {
	for _, row := range p.providers {
		for _, name := range row.Clusters {
			if low, high := cluster.ScalingAlarms(name, row.Name); alarms[low] || alarms[high] {
				names = append(names, name)
			}
		}
	}
	return names
}
