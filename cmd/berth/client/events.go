package client

import (
	"context"
	"math"
	"slices"
	"time"

	"berth/cmd/berth/listing"
	"berth/shared/cluster"
)

// ListPages calls a list operation of the ECS API until it has no more pages, and returns the texts
// of the member, such as clusterArns.
func (c *Client) ListPages(ctx context.Context, op, member string, in map[string]any) (all []string, err error) {
	for {
		var out map[string]any
		if err := c.CallECS(ctx, op, in, &out); err != nil {
			return nil, err
		}
		list, _ := out[member].([]any)
		for _, item := range list {
			if text, ok := item.(string); ok {
				all = append(all, text)
			}
		}
		token, _ := out["nextToken"].(string)
		if token == "" {
			return all, nil
		}
		in["nextToken"] = token
	}
}

// ClusterNames returns the names of the clusters that Berth answers for.
func (c *Client) ClusterNames(ctx context.Context) ([]string, error) {
	names, err := c.ListPages(ctx, "ListClusters", "clusterArns", map[string]any{})
	for i := range names {
		names[i] = cluster.LastPart(names[i])
	}
	return names, err
}

// ServiceNames returns the names of a cluster's services.
func (c *Client) ServiceNames(ctx context.Context, clusterName string) ([]string, error) {
	names, err := c.ListPages(ctx, "ListServices", "serviceArns", map[string]any{"cluster": clusterName,
		"maxResults": 100})
	for i := range names {
		names[i] = cluster.LastPart(names[i])
	}
	return names, err
}

// describedServices is how many services one DescribeServices may name.
const describedServices = 10

// ServiceEvents returns the events of the services, the oldest first. missing are the services that
// do not exist.
func (c *Client) ServiceEvents(
	ctx context.Context, clusterName string, services []string,
) (all []listing.Event, missing []string, err error) {
	for chunk := range slices.Chunk(services, describedServices) {
		var out struct {
			Services []struct {
				Name   string `json:"serviceName"`
				Events []struct {
					ID      string  `json:"id"`
					At      float64 `json:"createdAt"`
					Message string  `json:"message"`
				} `json:"events"`
			} `json:"services"`
			Failures []struct{ ARN string } `json:"failures"`
		}
		in := map[string]any{"cluster": clusterName, "services": chunk}
		if err := c.CallECS(ctx, "DescribeServices", in, &out); err != nil {
			return nil, nil, err
		}
		for _, f := range out.Failures {
			missing = append(missing, cluster.LastPart(f.ARN))
		}
		for _, s := range out.Services {
			for _, e := range s.Events {
				at := time.UnixMilli(int64(math.Round(e.At * 1000))).UTC()
				all = append(all, listing.Event{ID: e.ID, At: at, Service: s.Name, Message: e.Message})
			}
		}
	}
	// Events of a service come newest first. Of two at the same time the later one was written
	// later.
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b listing.Event) int { return a.At.Compare(b.At) })
	return all, missing, nil
}
