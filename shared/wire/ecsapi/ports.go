package ecsapi

import (
	"context"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// Clusters keeps Berth's state in step with what ECS does with clusters, container instances and
// task definitions. Names are plain, never ARNs; errors of the API are [cluster.Error].
type Clusters interface {
	// CheckManaged refuses a cluster that Berth does not manage with ClusterNotFoundException. It
	// stands before every operation that is forwarded to ECS: clusters of others are out of reach.
	CheckManaged(ctx context.Context, name string) error
	// ManagedClusters returns the names of the clusters that Berth manages.
	ManagedClusters(ctx context.Context) ([]string, error)
	// ClusterCreated records a cluster that ECS has created, or had already.
	ClusterCreated(ctx context.Context, name string) error
	// CheckDeletable refuses with ClusterContainsServicesException, ClusterContainsTasksException,
	// or ClusterContainsContainerInstancesException if it has node groups.
	CheckDeletable(ctx context.Context, name string) error
	// ClusterDeleted removes everything that Berth keeps of a cluster.
	ClusterDeleted(ctx context.Context, name string) error
	// ClusterCounts counts services and tasks; all counts of an unknown cluster are 0.
	ClusterCounts(ctx context.Context, name string) (operation.ClusterCounts, error)
	// ListInstances returns a page of the ids of the instances that meet a filter; more reports
	// whether there is another page.
	ListInstances(ctx context.Context, q operation.ListInstances) (ids []string, more bool, err error)
	// InstancesChanged reads instances anew after their attributes or state were changed here.
	InstancesChanged(ctx context.Context, clusterName string, ids []string) error
	// TaskDefinitionChanged records that a revision (family:revision) is no longer ACTIVE at ECS.
	TaskDefinitionChanged(ctx context.Context, name string) error
	// DeferDeregistration makes a revision INACTIVE for Berth alone if a cluster may use it. It
	// returns nil if none does: then ECS must deregister it.
	DeferDeregistration(ctx context.Context, name string) (*operation.Deregistration, error)
	// DeferDeletion requests the deletion of those of the revisions whose deregistration is
	// deferred, and returns these by name.
	DeferDeletion(ctx context.Context, names []string) (map[string]*operation.Deregistration, error)
	// DeferredDeregistrations returns the deferred deregistrations of a family, or of all families if it is
	// empty.
	DeferredDeregistrations(ctx context.Context, family string) ([]*operation.Deregistration, error)
	// SuggestFamily returns refused with the nearest family that exists, if the family of the named
	// task definition does not.
	SuggestFamily(ctx context.Context, name string, refused error) error
}

// Services creates, changes, deletes and describes services. What was named and does not exist
// becomes a failure with its bare name.
type Services interface {
	// FindCreatedService returns the service that an earlier call with the same clientToken made,
	// nil if none did. It is called before anything is looked up.
	FindCreatedService(ctx context.Context, spec operation.CreateService) (*operation.ServiceDetail, error)
	// CreateService returns the new service, or the one that the same clientToken made.
	CreateService(ctx context.Context, spec operation.CreateService) (*operation.ServiceDetail, error)
	// UpdateService leaves as it is what the change does not name.
	UpdateService(ctx context.Context, change operation.UpdateService) (*operation.ServiceDetail, error)
	// DeleteService refuses a service that still wants tasks, unless force is set.
	DeleteService(ctx context.Context, clusterName, name string, force bool) (*operation.ServiceDetail, error)
	// DescribeServices keeps the order of names.
	DescribeServices(ctx context.Context, clusterName string, names []string) ([]*operation.ServiceDetail,
		[]cluster.Failure, error)
	// ListServices returns a page of names; more reports whether there is another page.
	ListServices(ctx context.Context, q operation.ListServices) (names []string, more bool, err error)
}

// Deployments describes service deployments and revisions, and stops service deployments. The ARN
// of a failure is [operation.RecordRef.String].
type Deployments interface {
	// ListServiceDeployments returns a page of those that match, newest first; more reports whether
	// there is another page.
	ListServiceDeployments(ctx context.Context, q operation.ListServiceDeployments) (found []*operation.ReleaseDetail,
		more bool, err error)
	DescribeServiceDeployments(ctx context.Context, refs []operation.RecordRef) ([]*operation.ReleaseDetail,
		[]cluster.Failure, error)
	DescribeServiceRevisions(ctx context.Context, refs []operation.RecordRef) ([]*operation.RevisionDetail,
		[]cluster.Failure, error)
	// StopServiceDeployment requests a rollback or an abort; placement carries it out.
	StopServiceDeployment(ctx context.Context, ref operation.RecordRef, how cluster.StopType) error
}

// TaskSets creates, scales, deletes and describes task sets of services with the deployment
// controller EXTERNAL. An unknown one is a TaskSetNotFoundException.
type TaskSets interface {
	// FindCreatedTaskSet returns the task set that an earlier call with the same clientToken made,
	// nil if none did. It is called before anything is looked up.
	FindCreatedTaskSet(ctx context.Context, spec operation.CreateTaskSet) (*operation.TaskSetDetail, error)
	CreateTaskSet(ctx context.Context, spec operation.CreateTaskSet) (*operation.TaskSetDetail, error)
	UpdateTaskSet(ctx context.Context, ref operation.TaskSetRef, scale float64) (*operation.TaskSetDetail, error)
	// DeleteTaskSet refuses a task set that still wants tasks, unless force is set.
	DeleteTaskSet(ctx context.Context, ref operation.TaskSetRef, force bool) (*operation.TaskSetDetail, error)
	MakePrimary(ctx context.Context, ref operation.TaskSetRef) (*operation.TaskSetDetail, error)
	// DescribeTaskSets describes all task sets of the service if none is named. A failure has the
	// service's name and the id.
	DescribeTaskSets(ctx context.Context, clusterName, service string, ids []string) ([]*operation.TaskSetDetail,
		[]cluster.Failure, error)
}

// Tasks starts, stops and describes tasks. What was named and does not exist becomes a failure with
// its bare id.
type Tasks interface {
	// FindSubmittedTasks answers a call whose clientToken has submitted a request before, as
	// SubmitTasks did; found is false if none did.
	FindSubmittedTasks(ctx context.Context, spec operation.SubmitTasks) (tasks []*cluster.Task,
		failed []cluster.Failure, found bool, err error)
	// SubmitTasks is RunTask and StartTask, by the kind of spec. It waits for placement some
	// seconds.
	SubmitTasks(ctx context.Context, spec operation.SubmitTasks) ([]*cluster.Task, []cluster.Failure, error)
	// StopTask returns the task as it is while it stops.
	StopTask(ctx context.Context, clusterName, task, reason string) (*cluster.Task, error)
	// DescribeTasks keeps the order of ids, which may be Berth's or ECS's.
	DescribeTasks(ctx context.Context, clusterName string, ids []string) ([]*cluster.Task, []cluster.Failure, error)
	// TaskLaunches returns capacity provider or launch type by task id. Tasks of the launch type
	// EC2 are left out.
	TaskLaunches(ctx context.Context, tasks []*cluster.Task) (map[string]operation.TaskLaunch, error)
	ListTasks(ctx context.Context, q operation.ListTasks) (operation.TaskPage, error)
}

// TaskProtections protects tasks from being stopped by the scheduler.
type TaskProtections interface {
	// ProtectTasks protects tasks for d from now on; 0 ends their protection.
	ProtectTasks(ctx context.Context, clusterName string, ids []string, d time.Duration) ([]operation.ProtectedTask,
		[]cluster.Failure, error)
	// DescribeTaskProtections returns a zero time for a task that is not protected.
	DescribeTaskProtections(ctx context.Context, clusterName string, ids []string) ([]operation.ProtectedTask,
		[]cluster.Failure, error)
}

// Tagging reads and changes the tags of services and tasks.
type Tagging interface {
	// TagResource sets tags and removes others in one change.
	TagResource(ctx context.Context, of cluster.ResourceARN, set map[string]string, remove []string) error
	ResourceTags(ctx context.Context, of cluster.ResourceARN) (map[string]string, error)
}

// CapacityProviders creates, changes, deletes and describes capacity providers (C7).
type CapacityProviders interface {
	// CreateCapacityProvider takes p with its settings complete, defaults included.
	CreateCapacityProvider(ctx context.Context, p *cluster.CapacityProvider) (*cluster.CapacityProvider, error)
	UpdateCapacityProvider(ctx context.Context, c operation.UpdateCapacityProvider) (*cluster.CapacityProvider, error)
	// DeleteCapacityProvider returns a provider that is in use as DELETE_FAILED, without an error.
	DeleteCapacityProvider(ctx context.Context, name string) (*cluster.CapacityProvider, error)
	// DescribeCapacityProviders returns those named and the rest as failures; all if none is named.
	DescribeCapacityProviders(ctx context.Context, names []string) ([]*cluster.CapacityProvider, []cluster.Failure,
		error)
	TagCapacityProvider(ctx context.Context, name string, set map[string]string, remove []string) error
	CapacityProviderTags(ctx context.Context, name string) (map[string]string, error)
}

// ClusterProviders associates capacity providers with clusters.
type ClusterProviders interface {
	// PutClusterProviders replaces all of a cluster's providers and its default strategy.
	PutClusterProviders(ctx context.Context, clusterName string, names []string,
		strategy []cluster.ProviderShare) (*operation.ClusterAttachments, error)
	// CheckClusterProviders refuses what PutClusterProviders would refuse for a new cluster.
	CheckClusterProviders(ctx context.Context, clusterName string, names []string,
		strategy []cluster.ProviderShare) error
	// ClusterAttachments has Rev 0 for a cluster whose providers were never set.
	ClusterAttachments(ctx context.Context, clusterName string) (*operation.ClusterAttachments, error)
}

// AccountSettings keeps the account settings that Berth acts on.
type AccountSettings interface {
	// AccountSettings returns what was set, by the principal's ARN and the setting's name.
	AccountSettings(ctx context.Context) (map[string]map[string]string, error)
	// SetAccountSetting sets a principal's setting; an empty value removes it.
	SetAccountSetting(ctx context.Context, principal, name, value string) error
}
