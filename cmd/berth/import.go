package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"berth/cmd/berth/definition"
	"berth/shared/servicefabric"
)

// importCommand applies a Service Fabric description to a cluster (P16). A failed import can be run
// again: it then changes only what is still different. It never removes a cluster or an instance.
type importCommand struct {
	clusterFlags
	File     string `arg:"" type:"existingfile" help:"ClusterManifest.xml or ClusterConfig.json."`
	DryRun   bool   `help:"Only print what would change."`
	Register bool   `help:"Register an instance for each node without one, for simulated instances."`
	CPU      int    `default:"4096" help:"ECS CPU units of the registered instances (128-10000000)."`
	Memory   int    `default:"16384" help:"MiB of memory of the registered instances (128-100000000)."`
	JSON     bool   `help:"Print JSON."`
}

// Validate refuses sizes that no instance has.
func (i *importCommand) Validate() error {
	if i.CPU < 128 || i.CPU > 10_000_000 {
		return fmt.Errorf("--cpu is %d, expected 128 to 10000000 CPU units", i.CPU)
	}
	if i.Memory < 128 || i.Memory > 100_000_000 {
		return fmt.Errorf("--memory is %d, expected 128 to 100000000 MiB", i.Memory)
	}
	return i.clusterFlags.Validate()
}

// imported is what the command prints as JSON.
type imported struct {
	Cluster string              `json:"cluster"`
	Changes []definition.Change `json:"changes"`
	Applied bool                `json:"applied"`
	// Absent are the nodes without an instance, Ignored the settings that Berth does not have.
	Absent  []string `json:"absentNodes,omitempty"`
	Ignored []string `json:"ignoredSettings,omitempty"`
	// Reasons says why, by these names.
	Reasons map[string]string `json:"ignoredBecause,omitempty"`
	Notes   []string          `json:"notes,omitempty"`
}

// Run compares the description with the cluster and, unless it is a dry run, changes the cluster.
func (i *importCommand) Run(ctx context.Context, s *streams) error {
	// The file is read first: a malformed one must not cost a call.
	data, err := os.ReadFile(i.File)
	if err != nil {
		return err
	}
	want, err := servicefabric.Read(data)
	if err != nil {
		return fmt.Errorf("%s: %w", i.File, err)
	}
	c, err := i.newClient(ctx)
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
		err := plan.ApplyChanges(ctx, c, size, func(done, of int) {
			// Short plans finish before a report would help.
			if of > 20 && (done%20 == 0 || done == of) {
				fmt.Fprintf(s.err, "%d of %d calls\n", done, of)
			}
		})
		if err != nil {
			return fmt.Errorf("changing cluster %s (run the command again to continue): %w", i.Cluster, err)
		}
	}
	return i.printChanges(s, plan, want)
}

// printChanges writes the plan. Nodes without an instance and ignored settings are listed, because
// nothing else would show that the description was not applied completely.
func (i *importCommand) printChanges(s *streams, plan *definition.Plan, want *servicefabric.Cluster) error {
	out := imported{Cluster: i.Cluster, Changes: plan.Changes, Applied: !i.DryRun, Ignored: want.Ignored,
		Reasons: want.Reasons, Notes: plan.Notes}
	if !i.Register {
		for _, n := range plan.Absent {
			out.Absent = append(out.Absent, n.Name)
		}
	}
	if i.JSON {
		// A program that reads the JSON expects a list.
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
				"  no instance is node %s yet: start its agent with %s, or use --register for a simulated one\n",
				n.Name, definition.AgentSetting(n))
		}
	}
	for _, name := range out.Ignored {
		text := fmt.Sprintf("  Berth does not have the setting %s; it was left out", name)
		if why := out.Reasons[name]; why != "" {
			text += ": " + why
		}
		fmt.Fprintln(s.out, text)
	}
	for _, note := range out.Notes {
		fmt.Fprintf(s.out, "  %s\n", note)
	}
	verb := "changed"
	if i.DryRun {
		verb = "would change"
	}
	fmt.Fprintf(s.out, "Cluster %s: %d settings and instances %s.\n", i.Cluster, len(plan.Changes), verb)
	return nil
}
