package ecsapi

import (
	"context"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// Clusters follows what ECS does with clusters, container instances and task definitions. Names are
// plain, never ARNs; errors of the API are [cluster.Error].
type Clusters interface {
	ClusterCreated(ctx context.Context, name string) error
	// CheckDeletable refuses with ClusterContainsServicesException or
	// ClusterContainsTasksException.
	CheckDeletable(ctx context.Context, name string) error
	ClusterDeleted(ctx context.Context, name string) error
	ServiceCount(ctx context.Context, name string) (active int, err error)
	// InstancesChanged follows a change of attributes or state through the API.
	InstancesChanged(ctx context.Context, clusterName string, ids []string) error
	// TaskDefinitionChanged follows the end of a revision, family:revision.
	TaskDefinitionChanged(ctx context.Context, name string) error
}

// Services creates, changes and deletes services. What was asked for and is not there comes as a
// failure with its bare name.
type Services interface {
	// FindCreatedService is the service that the same clientToken made before; nil where none did.
	// Then nothing else is looked at.
	FindCreatedService(ctx context.Context, spec operation.CreateService) (*operation.ServiceDetail, error)
	CreateService(ctx context.Context, spec operation.CreateService) (*operation.ServiceDetail, error)
	UpdateService(ctx context.Context, change operation.UpdateService) (*operation.ServiceDetail, error)
	DeleteService(ctx context.Context, clusterName, name string, force bool) (*operation.ServiceDetail, error)
	DescribeServices(ctx context.Context, clusterName string, names []string) ([]*operation.ServiceDetail,
		[]cluster.Failure, error)
	ListServices(ctx context.Context, q operation.ListServices) (names []string, more bool, err error)
}

// Deployments looks up service deployments and revisions. Failures have [cluster.RecordRef.String].
type Deployments interface {
	// ListServiceDeployments are the service deployments that match, the newest first.
	ListServiceDeployments(ctx context.Context, q operation.ListServiceDeployments) (found []*operation.ReleaseDetail,
		more bool, err error)
	DescribeServiceDeployments(ctx context.Context, refs []operation.RecordRef) ([]*operation.ReleaseDetail,
		[]cluster.Failure, error)
	DescribeServiceRevisions(ctx context.Context, refs []operation.RecordRef) ([]*operation.RevisionDetail,
		[]cluster.Failure, error)
	StopServiceDeployment(ctx context.Context, ref operation.RecordRef, how cluster.StopType) error
}

// Tasks starts, stops and looks up tasks. Those that are not there come as failures with their bare
// ids.
type Tasks interface {
	// FindSubmittedTasks is SubmitTasks where the same clientToken submitted a request before;
	// found reports whether one did.
	FindSubmittedTasks(ctx context.Context, spec operation.SubmitTasks) (tasks []*cluster.Task,
		failed []cluster.Failure, found bool, err error)
	// SubmitTasks is RunTask and StartTask.
	SubmitTasks(ctx context.Context, spec operation.SubmitTasks) ([]*cluster.Task, []cluster.Failure, error)
	StopTask(ctx context.Context, clusterName, task, reason string) (*cluster.Task, error)
	DescribeTasks(ctx context.Context, clusterName string, ids []string) ([]*cluster.Task, []cluster.Failure, error)
	// TaskLaunches say what tasks were asked for with, by id.
	TaskLaunches(ctx context.Context, tasks []*cluster.Task) (map[string]operation.TaskLaunch, error)
	ListTasks(ctx context.Context, q operation.ListTasks) (ids []string, more bool, err error)
}

// TaskProtections protects tasks from being stopped by the scheduler.
type TaskProtections interface {
	// ProtectTasks protects tasks for d from now on; 0 ends their protection.
	ProtectTasks(ctx context.Context, clusterName string, ids []string, d time.Duration) ([]operation.ProtectedTask,
		[]cluster.Failure, error)
	DescribeTaskProtections(ctx context.Context, clusterName string, ids []string) ([]operation.ProtectedTask,
		[]cluster.Failure, error)
}

// Tagging sets and reads the tags of services and tasks.
type Tagging interface {
	TagResource(ctx context.Context, of cluster.ResourceARN, set map[string]string, remove []string) error
	ResourceTags(ctx context.Context, of cluster.ResourceARN) (map[string]string, error)
}

// CapacityProviders creates, changes and deletes capacity providers (C7).
type CapacityProviders interface {
	CreateCapacityProvider(ctx context.Context, p *cluster.CapacityProvider) (*cluster.CapacityProvider, error)
	UpdateCapacityProvider(ctx context.Context, c operation.UpdateCapacityProvider) (*cluster.CapacityProvider, error)
	DeleteCapacityProvider(ctx context.Context, name string) (*cluster.CapacityProvider, error)
	// DescribeCapacityProviders are those named, or all; those that are not there come as failures.
	DescribeCapacityProviders(ctx context.Context, names []string) ([]*cluster.CapacityProvider, []cluster.Failure,
		error)
	TagCapacityProvider(ctx context.Context, name string, set map[string]string, remove []string) error
	CapacityProviderTags(ctx context.Context, name string) (map[string]string, error)
}

// ClusterProviders associates capacity providers with clusters.
type ClusterProviders interface {
	PutClusterProviders(ctx context.Context, clusterName string, names []string,
		strategy []cluster.ProviderShare) (*operation.ClusterAttachments, error)
	// CheckClusterProviders refuses what PutClusterProviders would for a cluster that is new.
	CheckClusterProviders(ctx context.Context, clusterName string, names []string,
		strategy []cluster.ProviderShare) error
	ClusterAttachments(ctx context.Context, clusterName string) (*operation.ClusterAttachments, error)
}
