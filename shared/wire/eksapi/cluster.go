package eksapi

import (
	"context"
	"slices"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/input"
)

// clusterHealth is the health of a cluster, which has no issues here: EKS's are about its control
// plane.
type clusterHealth struct {
	Issues []issue `json:"issues"`
}

// A clusterSummary is a cluster as the API shows it. What EKS says of a control plane, such as its
// endpoint and its version of Kubernetes, is missing: a cluster of container instances has none.
type clusterSummary struct {
	Name      string        `json:"name"`
	ARN       string        `json:"arn"`
	CreatedAt epochSeconds  `json:"createdAt"`
	Status    string        `json:"status"`
	Health    clusterHealth `json:"health"`
}

type clusterOutput struct {
	Cluster *clusterSummary `json:"cluster"`
}

// listClustersOutput is a page of names of clusters.
type listClustersOutput struct {
	Clusters  []string `json:"clusters"`
	NextToken *string  `json:"nextToken,omitempty"`
}

// describeCluster describes a cluster of the ECS API as EKS describes its own, so that clients that
// look a node group's cluster up find it.
func (e *server) describeCluster(ctx context.Context, c *call) (any, error) {
	if err := checkClusterName(c.cluster); err != nil {
		return nil, err
	}
	found, err := e.groups.DescribeCluster(ctx, c.cluster)
	if err != nil {
		return nil, err
	}
	return clusterOutput{&clusterSummary{
		Name: found.Name, ARN: e.account.EKSClusterARN(found.Name), CreatedAt: epochSeconds(found.CreatedAt),
		Status: "ACTIVE", Health: clusterHealth{[]issue{}},
	}}, nil
}

// listClusters lists the clusters that Berth manages, sorted by name. EKS's include=all adds
// clusters that are registered from elsewhere; there are none.
func (e *server) listClusters(ctx context.Context, c *call) (any, error) {
	c.nodeGroup = ""
	for _, include := range c.query["include"] {
		if include != "all" {
			return nil, input.Invalid("include is %.60q, expected all.", include)
		}
	}
	found, next, err := c.readPage(ctx, "clusters", func(
		ctx context.Context, q operation.ListNodeGroups,
	) ([]string, bool, error) {
		names, err := e.groups.ManagedClusters(ctx)
		if err != nil {
			return nil, false, err
		}
		slices.Sort(names)
		names = slices.DeleteFunc(names, func(name string) bool { return name <= q.After })
		return names[:min(len(names), q.Limit)], len(names) > q.Limit, nil
	})
	if err != nil {
		return nil, err
	}
	return listClustersOutput{found, next}, nil
}

// cancelUpdate finds no update. EKS cancels updates of a cluster's control plane only, and such a
// cluster has none here; updates of node groups run to their end.
func (e *server) cancelUpdate(ctx context.Context, c *call) (any, error) {
	if err := checkClusterName(c.cluster); err != nil {
		return nil, err
	}
	if _, err := e.groups.DescribeCluster(ctx, c.cluster); err != nil {
		return nil, err
	}
	return nil, cluster.Errorf(cluster.CodeResourceNotFound, "No update found for ID: %.100s", c.update)
}
