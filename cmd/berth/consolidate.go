package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/cmd/berth/client"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
)

// consolidateCommand switches consolidation on or off, and shows what it does. The switch is a tag
// of the capacity provider, so infrastructure code that sets tags must know of it, or it will undo
// it. The plan is computed here, by the code that managed scaling runs.
type consolidateCommand struct {
	clusterFlags
	Provider string `arg:"" optional:"" name:"capacity-provider" help:"Name of the capacity provider."`
	DryRun   bool   `help:"Show what would be done, and change nothing."`
	Off      bool   `help:"Switch consolidation off; instances that are being emptied take tasks again."`
	JSON     bool   `help:"Print JSON."`
}

// Validate names the flag that is wrong.
func (c *consolidateCommand) Validate() error {
	if c.Off && c.DryRun {
		return errors.New("--off is given, expected none beside --dry-run")
	}
	return c.clusterFlags.Validate()
}

// Run switches consolidation, unless it is a dry run, and prints the plan.
func (c *consolidateCommand) Run(ctx context.Context, s *streams) error {
	api, err := c.newClient(ctx)
	if err != nil {
		return err
	}
	capacity, err := whatif.ReadCapacity(ctx, api, c.Cluster)
	if err != nil {
		return err
	}
	name := cluster.LastPart(c.Provider)
	if !c.DryRun {
		if name, err = c.chooseProvider(name, capacity); err != nil {
			return err
		}
		// PlanConsolidation refuses an unknown name, with those that exist.
		if p := capacity.Providers[name]; p != nil {
			if err := c.switchConsolidation(ctx, api, p); err != nil {
				return err
			}
		}
	}
	src, err := readLiveCluster(ctx, api, c.Cluster, s)
	if err != nil {
		return err
	}
	answer, err := whatif.PlanConsolidation(src.snap, capacity, name, src.readAt)
	if err != nil {
		return err
	}
	return printAnswer(s.out, c.JSON, answer)
}

// chooseProvider returns the name, or that of the cluster's only capacity provider.
func (c *consolidateCommand) chooseProvider(name string, capacity *whatif.Capacity) (string, error) {
	switch names := slices.Sorted(maps.Keys(capacity.Providers)); {
	case name != "":
		return name, nil
	case len(names) == 0:
		return "", fmt.Errorf("cluster %s has no capacity provider", c.Cluster)
	case len(names) == 1:
		return names[0], nil
	default:
		return "", fmt.Errorf("%w: name the capacity provider, one of: %s", errUsage, strings.Join(names, ", "))
	}
}

// switchConsolidation sets or removes the provider's tag, and changes p accordingly.
func (c *consolidateCommand) switchConsolidation(
	ctx context.Context, api *client.Client, p *cluster.CapacityProvider,
) error {
	if !c.Off && !p.Scaling.Enabled {
		return fmt.Errorf("managed scaling of capacity provider %s is off, and consolidation is a part of it", p.Name)
	}
	var out struct {
		Providers []struct {
			ARN string `json:"capacityProviderArn"`
		} `json:"capacityProviders"`
	}
	in := map[string]any{"capacityProviders": []string{p.Name}}
	if err := api.CallECS(ctx, "DescribeCapacityProviders", in, &out); err != nil {
		return err
	}
	if len(out.Providers) == 0 {
		return fmt.Errorf("capacity provider %s has just been deleted", p.Name)
	}
	// The plan below must show the new state, which Berth's rows get only with the tag.
	p.Scaling.Consolidation.Enabled = !c.Off
	if c.Off {
		return api.CallECS(ctx, "UntagResource", map[string]any{"resourceArn": out.Providers[0].ARN,
			"tagKeys": []string{cluster.TagConsolidation}}, nil)
	}
	tags := []map[string]string{{"key": cluster.TagConsolidation, "value": "true"}}
	return api.CallECS(ctx, "TagResource", map[string]any{"resourceArn": out.Providers[0].ARN, "tags": tags}, nil)
}
