package ecs

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// clusterNames is ECS's rule for the names of clusters (ECS API, CreateCluster).
var clusterNames = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]{0,254}$`)

// CreateCluster creates a cluster, or returns the ACTIVE one that has the name already, unchanged.
// The name of an INACTIVE cluster can be used again.
func (e *Clusters) CreateCluster(_ context.Context, in *ecs.CreateClusterInput) (*ecs.CreateClusterOutput, error) {
	var out ecs.CreateClusterOutput
	err := e.kernel.Change(func(time.Time) error {
		name := clusterName(value(in.ClusterName))
		if !clusterNames.MatchString(name) {
			return invalidParameter("Cluster name must match the pattern [a-zA-Z][a-zA-Z0-9_-]{0,254}.")
		}
		if err := errors.Join(checkTags(in.Tags, nil), checkSettings(in.Settings),
			checkExecuteCommand(in.Configuration)); err != nil {
			return err
		}
		if c := e.clusters[name]; c != nil && c.isActive() {
			out.Cluster = new(c.describe(everyField))
			return nil
		}
		c := newCluster(types.Cluster{
			ClusterArn: new(e.kernel.Account.ARN("cluster", name)), ClusterName: &name, Status: new("ACTIVE"),
			Settings: in.Settings, Configuration: in.Configuration, CapacityProviders: in.CapacityProviders,
			DefaultCapacityProviderStrategy: in.DefaultCapacityProviderStrategy,
			ServiceConnectDefaults:          serviceConnect(in.ServiceConnectDefaults), Tags: in.Tags,
		})
		e.clusters[name] = c
		e.kernel.SaveRow(c)
		out.Cluster = new(c.describe(everyField))
		return nil
	})
	return &out, err
}

// checkSettings refuses settings that clusters do not have, and values that their one setting does
// not have.
func checkSettings(settings []types.ClusterSetting) error {
	for _, s := range settings {
		switch {
		case s.Name != types.ClusterSettingNameContainerInsights:
			return invalidParameter("Invalid setting 'name'")
		case !slices.Contains([]string{"enabled", "disabled", "enhanced"}, value(s.Value)):
			return invalidParameter("Invalid setting 'value'")
		}
	}
	return nil
}

// checkExecuteCommand refuses a log configuration of ECS Exec where the logging says that it is not
// used, and none where it is.
func checkExecuteCommand(in *types.ClusterConfiguration) error {
	if in == nil || in.ExecuteCommandConfiguration == nil {
		return nil
	}
	c := in.ExecuteCommandConfiguration
	log := value(c.LogConfiguration)
	named := value(log.CloudWatchLogGroupName) != "" || value(log.S3BucketName) != ""
	switch override := c.Logging == types.ExecuteCommandLoggingOverride; {
	case override && !named:
		return invalidParameter("A CloudWatch log group name or S3 bucket name must be specified when overriding the " +
			"default log configuration.")
	case !override && c.LogConfiguration != nil:
		return invalidParameter("You must set logging to 'OVERRIDE' when you supply a log configuration.")
	}
	return nil
}

// serviceConnect drops the defaults where the namespace is empty, which is how a caller removes
// them.
func serviceConnect(in *types.ClusterServiceConnectDefaultsRequest) *types.ClusterServiceConnectDefaults {
	if in == nil || value(in.Namespace) == "" {
		return nil
	}
	return &types.ClusterServiceConnectDefaults{Namespace: in.Namespace}
}

// DescribeClusters describes the clusters named, "default" if none is. Deleted clusters are
// described as INACTIVE, as ECS does for a while; here they always stay.
func (e *Clusters) DescribeClusters(
	_ context.Context, in *ecs.DescribeClustersInput,
) (*ecs.DescribeClustersOutput, error) {
	var out ecs.DescribeClustersOutput
	names := in.Clusters
	if len(names) == 0 {
		names = []string{"default"}
	}
	if len(names) > 100 {
		return nil, invalidParameter("Clusters cannot have more than 100 items.")
	}
	err := e.kernel.View(func(time.Time) error {
		for _, name := range names {
			c := e.clusters[clusterName(name)]
			if c == nil {
				out.Failures = append(out.Failures, missingFailure(e.kernel.Account.ARN("cluster", clusterName(name))))
				continue
			}
			out.Clusters = append(out.Clusters, c.describe(in.Include))
		}
		return nil
	})
	return &out, err
}

// ListClusters lists the ARNs of ACTIVE clusters.
func (e *Clusters) ListClusters(_ context.Context, in *ecs.ListClustersInput) (*ecs.ListClustersOutput, error) {
	var out ecs.ListClustersOutput
	err := e.kernel.View(func(time.Time) (err error) {
		var arns []string
		for _, c := range e.clusters {
			if c.isActive() {
				arns = append(arns, *c.info.ClusterArn)
			}
		}
		out.ClusterArns, out.NextToken, err = pageAfterToken("ListClusters", arns, in.NextToken, in.MaxResults, false)
		return err
	})
	return &out, err
}

// UpdateCluster changes those of settings, configuration and Service Connect defaults that the
// input has.
func (e *Clusters) UpdateCluster(_ context.Context, in *ecs.UpdateClusterInput) (*ecs.UpdateClusterOutput, error) {
	var out ecs.UpdateClusterOutput
	err := e.kernel.Change(e.inCluster(value(in.Cluster), func(c *ecsCluster, _ time.Time) error {
		if err := errors.Join(checkSettings(in.Settings), checkExecuteCommand(in.Configuration)); err != nil {
			return err
		}
		if in.Settings != nil {
			c.info.Settings = in.Settings
		}
		if in.Configuration != nil {
			c.info.Configuration = in.Configuration
		}
		if in.ServiceConnectDefaults != nil {
			c.info.ServiceConnectDefaults = serviceConnect(in.ServiceConnectDefaults)
		}
		e.kernel.SaveRow(c)
		out.Cluster = new(c.describe(everyField))
		return nil
	}))
	return &out, err
}

// UpdateClusterSettings replaces the settings.
func (e *Clusters) UpdateClusterSettings(
	_ context.Context, in *ecs.UpdateClusterSettingsInput,
) (*ecs.UpdateClusterSettingsOutput, error) {
	var out ecs.UpdateClusterSettingsOutput
	err := e.kernel.Change(e.inCluster(value(in.Cluster), func(c *ecsCluster, _ time.Time) error {
		if err := checkSettings(in.Settings); err != nil {
			return err
		}
		c.info.Settings = in.Settings
		e.kernel.SaveRow(c)
		out.Cluster = new(c.describe(everyField))
		return nil
	}))
	return &out, err
}

// DeleteCluster makes an empty cluster INACTIVE. As in ECS it refuses one that has instances, even
// drained ones, or tasks.
func (e *Clusters) DeleteCluster(_ context.Context, in *ecs.DeleteClusterInput) (*ecs.DeleteClusterOutput, error) {
	var out ecs.DeleteClusterOutput
	err := e.kernel.Change(e.inCluster(value(in.Cluster), func(c *ecsCluster, _ time.Time) error {
		switch d := c.describe(nil); {
		case d.RegisteredContainerInstancesCount > 0:
			return cluster.Errorf(cluster.CodeContainsInstances,
				"The Cluster cannot be deleted while Container Instances are active or draining.")
		case d.RunningTasksCount+d.PendingTasksCount > 0:
			return cluster.Errorf(cluster.CodeContainsTasks, "The Cluster cannot be deleted while Tasks are active.")
		}
		c.info.Status = new("INACTIVE")
		e.kernel.SaveRow(c)
		out.Cluster = new(c.describe(everyField))
		return nil
	}))
	return &out, err
}

// ClusterActive reports whether the cluster exists and is ACTIVE.
func (e *Service) ClusterActive(_ context.Context, name string) (active bool, err error) {
	err = e.kernel.View(func(time.Time) error {
		_, notFound := e.agents.findCluster(name)
		active = notFound == nil
		return nil
	})
	return active, err
}
