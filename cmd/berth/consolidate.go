package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
)

// consolidateCommand has lightly used instances emptied.
type consolidateCommand struct {
	client.Endpoint
	Provider string `arg:"" optional:"" name:"capacity-provider" help:"Name of the capacity provider; may be left out where the cluster has one, and with --dry-run."`
	Cluster  string `default:"default" help:"Name of the cluster."`
	DryRun   bool   `help:"Say what would be done, and change nothing."`
	Off      bool   `help:"Switch consolidation off: what is being emptied takes tasks again."`
	JSON     bool   `help:"As JSON."`
}

// Help is the end of `berth consolidate --help`.
func (c *consolidateCommand) Help() string {
	return `Switches consolidation on for a capacity provider (its tag berth:consolidation), and says what that will do: instances whose
tasks fit on others that are in use are drained, the cheapest first, within the services' percentages and the disruption budget
(berth:consolidation-percent of the group in berth:consolidation-window), and then terminated. It stays on until --off. Each
instance comes with where its tasks would go, or why it stays.

JSON: capacityProviders [capacityProvider, autoScalingGroup, enabled, managedScaling, why, percent, window, instances [instance,
ec2InstanceId, cost, fits, drain, moves [task, service, to], why], draining].

Examples:
  berth consolidate --dry-run
  berth consolidate spot
  berth consolidate spot --off`
}

// Validate names the flag that is wrong.
func (c *consolidateCommand) Validate() error {
	switch {
	case !clusterNames.MatchString(c.Cluster):
		return fmt.Errorf("--cluster is %q, expected 1 to 255 letters, digits, hyphens and underscores", c.Cluster)
	case c.Off && c.DryRun:
		return errors.New("--off is given, expected none beside --dry-run")
	}
	return nil
}

// Run plans, prints, and switches.
func (c *consolidateCommand) Run(ctx context.Context, s *streams) error {
	api, err := client.New(ctx, c.Endpoint)
	if err != nil {
		return err
	}
	k, err := whatif.ReadCapacity(ctx, api, c.Cluster)
	if err != nil {
		return err
	}
	name := cluster.LastPart(c.Provider)
	if names := slices.Sorted(maps.Keys(k.Providers)); !c.DryRun && name == "" {
		switch len(names) {
		case 0:
			return fmt.Errorf("cluster %s has no capacity provider", c.Cluster)
		case 1:
			name = names[0]
		default:
			return fmt.Errorf("%w: name the capacity provider, one of: %s", errUsage, strings.Join(names, ", "))
		}
	}
	if !c.DryRun && k.Providers[name] != nil {
		if err := c.switchConsolidation(ctx, api, k.Providers[name]); err != nil {
			return err
		}
	}
	say := newProgress(s.err, time.Now)
	defer say.finish()
	rows, err := whatif.ReadRows(ctx, api, c.Cluster,
		func(n int) { say.report("reading the cluster: %d rows so far", n) })
	if err != nil {
		return err
	}
	snap, err := whatif.BuildSnapshot(rows, func(int) {})
	if err != nil {
		return err
	}
	answer, err := whatif.PlanConsolidation(snap, k, name, time.Now())
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(s.out).Encode(answer)
	}
	return answer.Print(s.out)
}

// switchConsolidation switches consolidation on or off.
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
	if err := api.ECS(ctx, "DescribeCapacityProviders", map[string]any{"capacityProviders": []string{p.Name}},
		&out); err != nil {
		return err
	}
	if len(out.Providers) == 0 {
		return fmt.Errorf("capacity provider %s has just been deleted", p.Name)
	}
	p.Scaling.Consolidation.Enabled = !c.Off
	if c.Off {
		return api.ECS(ctx, "UntagResource", map[string]any{"resourceArn": out.Providers[0].ARN,
			"tagKeys": []string{cluster.TagConsolidation}}, nil)
	}
	tags := []map[string]string{{"key": cluster.TagConsolidation, "value": "true"}}
	return api.ECS(ctx, "TagResource", map[string]any{"resourceArn": out.Providers[0].ARN, "tags": tags}, nil)
}
