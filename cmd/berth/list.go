package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/cmd/berth/client"
	"berth/cmd/berth/listing"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
)

// outputFlags say how a list is printed.
type outputFlags struct {
	Output string `short:"o" default:"table" enum:"table,wide,json,yaml,name" help:"${output}" placeholder:"FORMAT"`
}

// printList writes a list in the format of the flags.
func printList[T any](s *streams, o *outputFlags, t listing.Table[T]) error {
	return listing.Write(s.out, t, listing.Options{Format: o.Output, Color: usesColor(s.out)})
}

// keepNamed returns the items that are named, or all of them if no name is given. A name is a whole
// one, an ARN of the cluster, or the beginning of an id; one that fits nothing is a [*whatif.NotFound].
func keepNamed[T any](src *source, kind string, items []T, names []string, ids func(T) []string) ([]T, error) {
	if len(names) == 0 {
		return items, nil
	}
	var out []T
	for _, name := range names {
		name, err := src.nameOf(name)
		if err != nil {
			return nil, err
		}
		found := slices.DeleteFunc(slices.Clone(items), func(item T) bool {
			return !slices.ContainsFunc(ids(item), func(id string) bool { return listing.IsShortFor(name, id) })
		})
		if len(found) == 0 {
			var known []string
			for _, item := range items {
				all := ids(item)
				id := all[0]
				if n := len(all) - 1; strings.HasPrefix(name, "i-") || strings.HasPrefix(name, "mi-") {
					id = all[n] // EC2's, if it has one
				}
				known = append(known, id)
			}
			return nil, &whatif.NotFound{Kind: kind, Name: name, Known: known}
		}
		out = append(out, found...)
	}
	return out, nil
}

// serviceCommand lists services.
type serviceCommand struct {
	clusterSourceFlags
	outputFlags
	Names []string `arg:"" optional:"" name:"name" help:"List only these."`
}

// Run prints the list.
func (c *serviceCommand) Run(ctx context.Context, s *streams) error {
	src, err := openSource(ctx, s, &c.clusterSourceFlags)
	if err != nil {
		return err
	}
	items, err := keepNamed(src, "service", listing.Services(src.snap, src.readAt), c.Names,
		func(s listing.Service) []string { return []string{s.Name} })
	if err != nil {
		return err
	}
	return printList(s, &c.outputFlags, listing.ServiceTable(items, src.readAt))
}

// taskCommand lists tasks.
type taskCommand struct {
	clusterSourceFlags
	outputFlags
	Service  string   `help:"List only tasks of this service." placeholder:"NAME"`
	Instance string   `help:"List only tasks on this instance." placeholder:"ID"`
	All      bool     `help:"List also tasks that have stopped, as long as their rows exist."`
	IDs      []string `arg:"" optional:"" name:"id" help:"List only these."`
}

// Run prints the list.
func (c *taskCommand) Run(ctx context.Context, s *streams) error {
	src, err := openSource(ctx, s, &c.clusterSourceFlags)
	if err != nil {
		return err
	}
	service, err := src.nameOf(c.Service)
	if err != nil {
		return fmt.Errorf("--service: %w", err)
	}
	if service != "" && src.snap.Services[service] == nil {
		var known []string
		for name := range src.snap.Services {
			known = append(known, name)
		}
		return &whatif.NotFound{Kind: "service", Name: service, Known: known}
	}
	instance := ""
	if c.Instance != "" {
		if instance, err = src.nameOf(c.Instance); err != nil {
			return fmt.Errorf("--instance: %w", err)
		}
		if instance, err = whatif.FindInstance(src.snap, instance); err != nil {
			return err
		}
	}
	items := listing.Tasks(src.snap, func(t *cluster.Task) bool {
		return (c.All || len(c.IDs) > 0 || !t.HasEnded()) && (service == "" || t.Service == service) &&
			(instance == "" || t.Instance == instance)
	})
	if items, err = keepNamed(src, "task", items, c.IDs,
		func(t listing.Task) []string { return []string{t.ID} }); err != nil {
		return err
	}
	return printList(s, &c.outputFlags, listing.TaskTable(items, src.readAt))
}

// instanceCommand lists container instances.
type instanceCommand struct {
	sourceFlags
	outputFlags
	IDs []string `arg:"" optional:"" name:"id" help:"List only these: container instance ids or EC2 instance ids."`
}

// Run prints the list.
func (c *instanceCommand) Run(ctx context.Context, s *streams) error {
	src, err := openSource(ctx, s, &c.sourceFlags)
	if err != nil {
		return err
	}
	items, err := keepNamed(src, "instance", listing.Instances(src.snap), c.IDs,
		func(i listing.Instance) []string { return []string{i.ID, i.EC2} })
	if err != nil {
		return err
	}
	return printList(s, &c.outputFlags, listing.InstanceTable(items))
}

// clusterCommand lists clusters.
type clusterCommand struct {
	client.Endpoint
	outputFlags
	Names []string `arg:"" optional:"" name:"name" help:"List only these."`
}

// maxDescribed is how many clusters one DescribeClusters may name.
const maxDescribed = 100

// Run prints the list.
func (c *clusterCommand) Run(ctx context.Context, s *streams) error {
	api, err := client.New(ctx, c.Endpoint)
	if err != nil {
		return err
	}
	names := c.Names
	if len(names) == 0 {
		if names, err = api.ListPages(ctx, "ListClusters", "clusterArns", map[string]any{}); err != nil {
			return err
		}
	}
	items := []listing.Cluster{}
	for chunk := range slices.Chunk(names, maxDescribed) {
		var out struct {
			Clusters []listing.Cluster `json:"clusters"`
			Failures []struct{ ARN, Reason string }
		}
		if err := api.CallECS(ctx, "DescribeClusters", map[string]any{"clusters": chunk}, &out); err != nil {
			return err
		}
		if len(out.Failures) > 0 {
			known, err := api.ClusterNames(ctx)
			if err != nil {
				return err
			}
			return &whatif.NotFound{Kind: "cluster", Name: cluster.LastPart(out.Failures[0].ARN), Known: known}
		}
		items = append(items, out.Clusters...)
	}
	slices.SortFunc(items, func(a, b listing.Cluster) int { return strings.Compare(a.Name, b.Name) })
	return printList(s, &c.outputFlags, listing.ClusterTable(items))
}
