package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"berth/cmd/berth/client"
	"berth/cmd/berth/definition"
	"berth/shared/servicefabric"
)

// importCommand makes a cluster what a description of Service Fabric's says.
type importCommand struct {
	client.Endpoint
	File     string `arg:"" type:"existingfile" help:"ClusterManifest.xml or ClusterConfig.json."`
	Cluster  string `default:"default" help:"Name of the cluster, made if it is not there."`
	DryRun   bool   `help:"Only print what would change."`
	Register bool   `help:"Register an instance for each node that has none: for simulated fleets. Elsewhere the machine's own agent does."`
	CPU      int    `default:"4096" help:"ECS CPU units of instances that are registered (128-10000000)."`
	Memory   int    `default:"16384" help:"MiB of memory of instances that are registered (128-100000000)."`
	JSON     bool   `help:"As JSON."`
}

// Help is the end of `berth import --help`.
func (i *importCommand) Help() string {
	return `Node types with their properties and capacities, buffer, overbooking, thresholds and constraint priorities become the
cluster's configuration, which is replaced whole. Instances that are nodes (by the attribute berth.property.NodeName, their
own id or EC2's) get the node's type and its fault and upgrade domain as attributes.

Examples:
  berth import ClusterManifest.xml --dry-run
  berth import ClusterConfig.json --cluster prod --register --cpu 2048 --memory 8192`
}

// Validate refuses sizes that no instance has.
func (i *importCommand) Validate() error {
	if i.CPU < 128 || i.CPU > 10_000_000 {
		return fmt.Errorf("--cpu is %d, expected 128 to 10000000 CPU units", i.CPU)
	}
	if i.Memory < 128 || i.Memory > 100_000_000 {
		return fmt.Errorf("--memory is %d, expected 128 to 100000000 MiB", i.Memory)
	}
	return nil
}

// imported is what the command prints as JSON.
type imported struct {
	Cluster string              `json:"cluster"`
	Changes []definition.Change `json:"changes"`
	Applied bool                `json:"applied"`
	// Absent are the nodes without an instance, Ignored the settings that mean nothing to Berth.
	Absent  []string `json:"absentNodes,omitempty"`
	Ignored []string `json:"ignoredSettings,omitempty"`
}

// Run reads the description, compares and, unless it is a dry run, changes the cluster.
func (i *importCommand) Run(ctx context.Context, s *streams) error {
	data, err := os.ReadFile(i.File)
	if err != nil {
		return err
	}
	want, err := servicefabric.Read(data)
	if err != nil {
		return fmt.Errorf("%s: %w", i.File, err)
	}
	c, err := client.New(ctx, i.Endpoint)
	if err != nil {
		return err
	}
	plan, err := definition.PlanChanges(ctx, c, i.Cluster, want)
	if err != nil {
		return fmt.Errorf("comparing with cluster %s: %w", i.Cluster, err)
	}
	var size *definition.Size
	if i.Register {
		size = &definition.Size{CPU: i.CPU, Memory: i.Memory}
		plan.RegisterAbsent()
	}
	if !i.DryRun {
		err := plan.Apply(ctx, c, size, func(done, of int) {
			if of > 20 && (done%20 == 0 || done == of) {
				fmt.Fprintf(s.err, "%d of %d calls\n", done, of)
			}
		})
		if err != nil {
			return fmt.Errorf("changing cluster %s (run it again to go on): %w", i.Cluster, err)
		}
	}
	return i.printChanges(s, plan, want)
}

func (i *importCommand) printChanges(s *streams, plan *definition.Plan, want *servicefabric.Cluster) error {
	out := imported{Cluster: i.Cluster, Changes: plan.Changes, Applied: !i.DryRun, Ignored: want.Ignored}
	if !i.Register {
		for _, n := range plan.Absent {
			out.Absent = append(out.Absent, n.Name)
		}
	}
	if i.JSON {
		if out.Changes == nil {
			out.Changes = []definition.Change{}
		}
		return json.NewEncoder(s.out).Encode(out)
	}
	for _, c := range plan.Changes {
		fmt.Fprintln(s.out, c)
	}
	if !i.Register {
		for _, n := range plan.Absent {
			fmt.Fprintf(s.out,
				"  no instance is node %s yet: have its agent start with %s, or use --register for a simulated one\n",
				n.Name, definition.AgentSetting(n))
		}
	}
	for _, name := range out.Ignored {
		fmt.Fprintf(s.out, "  %s means nothing here and was left out\n", name)
	}
	verb := "changed"
	if i.DryRun {
		verb = "would change"
	}
	fmt.Fprintf(s.out, "Cluster %s: %d settings and instances %s.\n", i.Cluster, len(plan.Changes), verb)
	return nil
}
