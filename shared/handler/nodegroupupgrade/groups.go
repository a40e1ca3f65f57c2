package nodegroupupgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// maxAge is how old the description of a group may be whose nodes are labelled.
const maxAge = 5 * time.Second

// An overview is what the schedule knows of all node groups together: which clusters have some, and
// their Auto Scaling groups, which one request describes.
type overview struct {
	clusters  map[string]bool
	names     []string
	groups    map[string]*cluster.AutoScalingGroup
	described time.Time
	failed    error
}

// readOverview reads which Auto Scaling groups belong to node groups. A node group that could not
// be created has none.
func readOverview(ctx context.Context, store state.Store) (*overview, error) {
	uses, err := state.ListRows[*state.GroupUse](
		ctx, store, state.Prefix(state.Directory, state.PrefixGroupUse), "uses of Auto Scaling groups")
	if err != nil {
		return nil, err
	}
	o := &overview{clusters: map[string]bool{}}
	for _, u := range uses {
		if u.NodeGroup != (cluster.NodeGroupRef{}) {
			o.clusters[u.NodeGroup.Cluster] = true
			o.names = append(o.names, u.Group)
		}
	}
	return o, nil
}

// describe describes all groups, unless that was done a moment ago. If it fails, the round says so,
// and each cluster's are described alone.
func (o *overview) describe(ctx context.Context, h *Handler) {
	now := h.Clock.Now()
	if o.groups != nil && now.Sub(o.described) <= maxAge {
		return
	}
	found, err := h.Auto.DescribeGroups(ctx, o.names)
	o.groups, o.described = groupsByName(found), now
	if err != nil {
		o.failed = fmt.Errorf("describing the Auto Scaling groups of node groups: %w", err)
	}
}

// reconcileScheduled reconciles the node groups of one cluster among all. A read is billed as at
// least 4 KB, so the instances are read together with the node groups, if there are some.
func (o *overview) reconcileScheduled(ctx context.Context, h *Handler, clusterName string) error {
	if !o.clusters[clusterName] {
		return h.reconcileCluster(ctx, clusterName)
	}
	rows, err := h.State.List(ctx, state.Range{
		Cluster: clusterName, From: state.PrefixInstance, To: state.PrefixNodeGroup + "\xff"})
	if err != nil {
		return fmt.Errorf("listing instances and node groups: %w", err)
	}
	var groups []*cluster.NodeGroup
	var instances []state.Row
	for _, row := range rows {
		switch row := row.(type) {
		case *cluster.NodeGroup:
			groups = append(groups, row)
		case *cluster.Instance:
			instances = append(instances, row)
		}
	}
	active, err := reconcileGroups(ctx, h, groups)
	if len(active) == 0 {
		return err
	}
	o.describe(ctx, h)
	for _, g := range active {
		if o.groups[g.AutoScalingGroup] == nil { // it is gone, or was just created
			return errors.Join(err, h.labelActiveGroups(ctx, clusterName, active))
		}
	}
	return errors.Join(err, labelGroups(ctx, h, active, o.groups, instances))
}

func groupsByName(groups []*cluster.AutoScalingGroup) map[string]*cluster.AutoScalingGroup {
	byName := map[string]*cluster.AutoScalingGroup{}
	for _, g := range groups {
		byName[g.Name] = g
	}
	return byName
}
