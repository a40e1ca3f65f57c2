package account

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/cmd/berth/doctor"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/state"
	"berth/shared/wire/berthapi"
)

// callBerth calls Berth's API through its function URL.
func (r *reader) callBerth(ctx context.Context, target string, in, out any) error {
	c := r.api
	var err error
	if c.Body, err = json.Marshal(in); err != nil {
		return err
	}
	c.Target = target
	return r.decode(ctx, "the policy of the stack's output CallerPolicyArn", c, out)
}

// The prefixes of targets: operations of ECS, and of Berth alone.
const ecsTarget, berthTarget = "AmazonEC2ContainerServiceV20141113.", "Berth_20261121."

// readClusters reads Berth's clusters from its API, each of them at ECS, and the Auto Scaling
// groups that they use with the quotas that these meet.
func (r *reader) readClusters(ctx context.Context, f *doctor.Facts) {
	defer (&quotaReader{&r.services}).readQuotas(ctx, f)
	var names []string
	in := map[string]any{}
	for range maxPages {
		var out struct {
			ClusterARNs []string `json:"clusterArns"`
			NextToken   string   `json:"nextToken"`
		}
		if err := r.callBerth(ctx, ecsTarget+"ListClusters", in, &out); err != nil {
			f.Clusters.Err = err
			return
		}
		for _, arn := range out.ClusterARNs {
			names = append(names, arn[strings.LastIndexByte(arn, '/')+1:])
		}
		if in["nextToken"] = out.NextToken; out.NextToken == "" {
			break
		}
	}
	slices.Sort(names)
	clusters := make([]doctor.Cluster, len(names))
	var wait sync.WaitGroup
	for i, name := range names {
		wait.Go(func() {
			known, services, err := r.readKnown(ctx, name)
			clusters[i] = doctor.Cluster{Name: name, Known: resultOf(known, err), Services: services,
				ECS: resultOf(r.readECS(ctx, name)), Capacity: resultOf(r.readCapacity(ctx, name))}
		})
	}
	wait.Wait()
	f.Clusters.Got = clusters
	(&groupReader{&r.services}).readGroups(ctx, f)
}

// readKnown reads the instances that Berth knows, and counts its services.
func (r *reader) readKnown(ctx context.Context, name string) (
	known []*cluster.Instance, services int, err error,
) {
	for token := ""; ; {
		var page berthapi.RowsOutput
		if err := r.callBerth(ctx, berthTarget+"ListClusterRows", berthapi.RowsInput{Cluster: name, NextToken: token},
			&page); err != nil {
			return nil, 0, err
		}
		for _, row := range page.Rows {
			decoded, err := state.DecodeRow(row.Sort, row.Row)
			if err != nil {
				return nil, 0, err
			}
			switch row := decoded.(type) {
			case *cluster.Instance:
				known = append(known, row)
			case *cluster.Service:
				if row.Status != cluster.ServiceInactive {
					services++
				}
			}
		}
		if token = page.NextToken; token == "" {
			return known, services, nil
		}
	}
}

// readCapacity reads the capacity providers and node groups of a cluster.
func (r *reader) readCapacity(ctx context.Context, name string) (*whatif.Capacity, error) {
	var out berthapi.CapacityOutput
	if err := r.callBerth(ctx, berthTarget+"DescribeCapacity", berthapi.ClusterInput{Cluster: name}, &out); err != nil {
		return nil, err
	}
	var rows []state.Row
	for _, row := range out.Rows {
		decoded, err := state.DecodeRow(row.Sort, row.Row)
		if err != nil {
			return nil, err
		}
		rows = append(rows, decoded)
	}
	capacity, _ := whatif.NewCapacity(rows)
	return capacity, nil
}

// readECS reads a cluster with its instances at ECS itself.
func (r *reader) readECS(ctx context.Context, name string) (c doctor.ECSCluster, err error) {
	var described struct {
		Clusters []struct {
			Status string `json:"status"`
		} `json:"clusters"`
	}
	if err := r.callJSON(ctx, ecs, "DescribeClusters", map[string]any{"clusters": []string{name}},
		&described); err != nil {
		return c, err
	}
	if len(described.Clusters) == 0 {
		return c, nil
	}
	if c.Status = described.Clusters[0].Status; c.Status != "ACTIVE" {
		return c, nil
	}
	in := map[string]any{"cluster": name, "maxResults": 100}
	for range maxPages {
		var page struct {
			ARNs      []string `json:"containerInstanceArns"`
			NextToken string   `json:"nextToken"`
		}
		if err := r.callJSON(ctx, ecs, "ListContainerInstances", in, &page); err != nil {
			return c, err
		}
		instances, err := r.describeInstances(ctx, name, page.ARNs)
		if err != nil {
			return c, err
		}
		c.Instances = append(c.Instances, instances...)
		if in["nextToken"] = page.NextToken; page.NextToken == "" {
			return c, nil
		}
	}
	return c, fmt.Errorf("more than %d pages of instances", maxPages)
}

// describeInstances describes at most 100 container instances.
func (r *reader) describeInstances(
	ctx context.Context, name string, arns []string,
) (list []doctor.ECSInstance, err error) {
	if len(arns) == 0 {
		return nil, nil
	}
	var out struct {
		Instances []struct {
			ARN            string  `json:"containerInstanceArn"`
			EC2            string  `json:"ec2InstanceId"`
			Status         string  `json:"status"`
			AgentConnected bool    `json:"agentConnected"`
			RegisteredAt   float64 `json:"registeredAt"`
		} `json:"containerInstances"`
	}
	if err := r.callJSON(ctx, ecs, "DescribeContainerInstances",
		map[string]any{"cluster": name, "containerInstances": arns}, &out); err != nil {
		return nil, err
	}
	for _, i := range out.Instances {
		list = append(list, doctor.ECSInstance{ID: i.ARN[strings.LastIndexByte(i.ARN, '/')+1:], EC2: i.EC2,
			Status: i.Status, AgentConnected: i.AgentConnected,
			RegisteredAt: time.UnixMilli(int64(i.RegisteredAt * 1000))})
	}
	return list, nil
}

// groupReader reads Auto Scaling groups.
type groupReader struct{ *services }

// maxGroups is how many groups one call describes.
const maxGroups = 50

// readGroups reads the Auto Scaling groups that the clusters use, with what their next machine is
// made of.
func (r *groupReader) readGroups(ctx context.Context, f *doctor.Facts) {
	f.Groups = map[string]doctor.Read[doctor.Group]{}
	var names []string
	for _, u := range doctor.GroupUses(f.Clusters.Got) {
		names = append(names, u.Group)
	}
	for some := range slices.Chunk(names, maxGroups) {
		maps.Copy(f.Groups, r.describeGroups(ctx, some))
	}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for name, g := range maps.Clone(f.Groups) {
		if g.Err != nil {
			continue
		}
		wait.Go(func() {
			r.readFailure(ctx, &g.Got)
			r.readTemplateRoles(ctx, &g.Got)
			mu.Lock()
			defer mu.Unlock()
			f.Groups[name] = g
		})
	}
	wait.Wait()
	r.readLaunches(ctx, f)
}
