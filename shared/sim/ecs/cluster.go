package ecs

import (
	"cmp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// ecsCluster is a cluster and its instances, including INACTIVE ones that are still visible. Only
// info is stored; the rest is an index over the stored instances and tasks.
type ecsCluster struct {
	info      types.Cluster      // its counts are zero here; describe fills them in
	instances []*instance        // in order of registration
	started   map[string][]*task // by startedBy: the scheduler looks tasks up by it
	listed    []string           // ids of the instances that are not INACTIVE; nil when to be made anew
}

func newCluster(info types.Cluster) *ecsCluster {
	return &ecsCluster{info: info, started: map[string][]*task{}}
}

func (c *ecsCluster) name() string { return *c.info.ClusterName }

func (c *ecsCluster) isActive() bool { return *c.info.Status == "ACTIVE" }

// registeredIDs returns the instances that are not INACTIVE, in order of registration. The caller
// must not change the slice.
func (c *ecsCluster) registeredIDs() []string {
	if c.listed == nil {
		c.listed = make([]string, 0, len(c.instances))
		for _, i := range c.instances {
			if i.Status != cluster.InstanceInactive {
				c.listed = append(c.listed, i.ID)
			}
		}
	}
	return c.listed
}

// tasks returns the visible tasks of the cluster, in order of start.
func (c *ecsCluster) tasks() (all []*task) {
	n := 0
	for _, i := range c.instances {
		n += len(i.tasks)
	}
	all = make([]*task, 0, n)
	for _, i := range c.instances {
		all = append(all, i.tasks...)
	}
	slices.SortFunc(all, func(a, b *task) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}

// describe returns the cluster with its counts. As in ECS, it has tags and settings only if include
// names them.
func (c *ecsCluster) describe(include []types.ClusterField) types.Cluster {
	d := c.info
	for _, i := range c.instances {
		if i.Status == cluster.InstanceInactive {
			continue
		}
		d.RegisteredContainerInstancesCount++
		running, pending := i.countTasks()
		d.RunningTasksCount += running
		d.PendingTasksCount += pending
	}
	if !slices.Contains(include, types.ClusterFieldTags) {
		d.Tags = nil
	}
	if !slices.Contains(include, types.ClusterFieldSettings) {
		d.Settings = nil
	}
	if !slices.Contains(include, types.ClusterFieldConfigurations) {
		d.Configuration = nil
	}
	return d
}

var everyField = []types.ClusterField{
	types.ClusterFieldTags, types.ClusterFieldSettings, types.ClusterFieldConfigurations,
}
