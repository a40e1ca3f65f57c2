package wire

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// Forwarder passes an operation on to ECS, or the simulated fleet, as it came. Status and body are ECS's own, errors of
// the API included; err is that there was no answer.
type Forwarder interface {
	Forward(ctx context.Context, op string, body []byte) (status int, answer []byte, err error)
}

// Scheduler is what Berth does itself: services and tasks. Names are plain, never ARNs; errors of the API are
// [cluster.Error]. What was asked for and is not there comes as a failure with its bare name or id.
type Scheduler interface {
	// Created is the service that the same clientToken made before; nil where none did. Then nothing else is looked at.
	Created(ctx context.Context, spec cluster.ServiceSpec) (*cluster.ServiceDetail, error)
	CreateService(ctx context.Context, spec cluster.ServiceSpec) (*cluster.ServiceDetail, error)
	UpdateService(ctx context.Context, change cluster.ServiceChange) (*cluster.ServiceDetail, error)
	DeleteService(ctx context.Context, clusterName, name string, force bool) (*cluster.ServiceDetail, error)
	DescribeServices(ctx context.Context, clusterName string, names []string) ([]*cluster.ServiceDetail, []cluster.Failure, error)
	ListServices(ctx context.Context, q cluster.ServiceQuery) (names []string, more bool, err error)

	// ListServiceDeployments are the service deployments that match, the newest first.
	ListServiceDeployments(ctx context.Context, q cluster.DeploymentQuery) (found []*cluster.ReleaseDetail, more bool, err error)
	// Failures of ServiceDeployments and ServiceRevisions have [cluster.RecordRef.String].
	ServiceDeployments(ctx context.Context, refs []cluster.RecordRef) ([]*cluster.ReleaseDetail, []cluster.Failure, error)
	ServiceRevisions(ctx context.Context, refs []cluster.RecordRef) ([]*cluster.RevisionDetail, []cluster.Failure, error)
	StopServiceDeployment(ctx context.Context, ref cluster.RecordRef, how cluster.StopType) error
	// ServiceThrottle is nil where nothing was slowed down.
	ServiceThrottle(ctx context.Context, clusterName, name string) (*cluster.Service, *cluster.Throttle, error)

	// ProtectTasks protects tasks for d from now on; 0 ends their protection.
	ProtectTasks(ctx context.Context, clusterName string, ids []string, d time.Duration) ([]cluster.ProtectedTask, []cluster.Failure, error)
	TaskProtections(ctx context.Context, clusterName string, ids []string) ([]cluster.ProtectedTask, []cluster.Failure, error)

	// Submitted is SubmitTasks where the same clientToken submitted a request before; found reports whether one did.
	Submitted(ctx context.Context, spec cluster.TaskSpec) (tasks []*cluster.Task, failed []cluster.Failure, found bool, err error)
	// SubmitTasks is RunTask and StartTask.
	SubmitTasks(ctx context.Context, spec cluster.TaskSpec) ([]*cluster.Task, []cluster.Failure, error)
	StopTask(ctx context.Context, clusterName, task, reason string) (*cluster.Task, error)
	DescribeTasks(ctx context.Context, clusterName string, ids []string) ([]*cluster.Task, []cluster.Failure, error)
	// TaskLaunches say what tasks were asked for with, by id.
	TaskLaunches(ctx context.Context, tasks []*cluster.Task) (map[string]cluster.TaskLaunch, error)
	ListTasks(ctx context.Context, q cluster.TaskQuery) (ids []string, more bool, err error)

	// Tag and Tags are for services and tasks.
	Tag(ctx context.Context, of cluster.ResourceARN, set map[string]string, remove []string) error
	Tags(ctx context.Context, of cluster.ResourceARN) (map[string]string, error)

	// Configuration is the cluster's, the zero one where nobody set any; PutConfiguration replaces it whole.
	Configuration(ctx context.Context, clusterName string) (*cluster.Configuration, error)
	PutConfiguration(ctx context.Context, c *cluster.Configuration) error
	// UpdateRules sets the parts of a service's rules that the tags stand for.
	UpdateRules(ctx context.Context, clusterName, service string, tags map[string]string) (*cluster.ServiceDetail, error)
	// ReportLoads takes in what tasks report; those that are not there come back.
	ReportLoads(ctx context.Context, clusterName string, reports []cluster.LoadReport) ([]cluster.Failure, error)
	// Rows are the rows that placement decides on, in order of sort key; more reports whether there are others after them.
	Rows(ctx context.Context, clusterName, after string) (rows []state.Row, more bool, err error)
	// Capacity are the rows of what the cluster's instances come from.
	Capacity(ctx context.Context, clusterName string) (rows []state.Row, err error)

	Providers
	ClusterCreated(ctx context.Context, name string) error
	// DeletingCluster refuses with ClusterContainsServicesException or ClusterContainsTasksException.
	DeletingCluster(ctx context.Context, name string) error
	ClusterDeleted(ctx context.Context, name string) error
	ServiceCount(ctx context.Context, name string) (active int, err error)
	// InstancesChanged follows a change of attributes or state through the API.
	InstancesChanged(ctx context.Context, clusterName string, ids []string) error
	// TaskDefinitionChanged follows the end of a revision, family:revision.
	TaskDefinitionChanged(ctx context.Context, name string) error
}

// ServerOptions say what the API server stands on.
type ServerOptions struct {
	Account   cluster.Account
	Scheduler Scheduler
	ECS       Forwarder
	// NodeGroups answer the EKS API on the same endpoint; it is not served where nil.
	NodeGroups NodeGroups
	// Logger gets one line per change, with the principal, and faults. nil drops them.
	Logger *slog.Logger
	// PassableRoles are the task and execution roles that callers may use, where Enforce is set: any other gives
	// AccessDeniedException. The embedded tier has no roles to give away.
	PassableRoles []string
	Enforce       bool
	// Loopback is [Mux.Loopback].
	Loopback bool
}

// server answers the ECS API: services and tasks by the scheduler, all else by ECS.
type server struct {
	references
	scheduler Scheduler
	ecs       Forwarder
	log       *slog.Logger
	passable  map[string]bool
	enforce   bool
	known     known
}

// NewServer is Berth's ECS API. Operations on services and tasks are Berth's own; those on clusters, task definitions,
// container instances, attributes and their tags are checked, passed on to ECS, and made known to the scheduler.
func NewServer(o ServerOptions) *Mux {
	s := &server{
		references: references{o.Account}, scheduler: o.Scheduler, ecs: o.ECS, log: o.Logger,
		passable: set(o.PassableRoles...), enforce: o.Enforce,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	operations := s.forwarded()
	for name, f := range s.own() {
		operations[name] = f
	}
	for name, f := range operations {
		if !reads(name) {
			operations[name] = s.logged(name, f)
		}
	}
	maps.Copy(operations, s.ownOperations(o.NodeGroups))
	m := &Mux{Loopback: o.Loopback, Logger: s.log, operations: operations}
	if o.NodeGroups != nil {
		m.eks = s.eksRoutes(o.NodeGroups)
	}
	return m
}

// reads reports whether an operation changes nothing.
func reads(name string) bool {
	return strings.HasPrefix(name, "Describe") || strings.HasPrefix(name, "List") || strings.HasPrefix(name, "Get")
}

// own are the operations that never reach ECS.
func (s *server) own() map[string]Operation {
	return map[string]Operation{
		"CreateService":    Op(s.createService),
		"UpdateService":    Op(s.updateService),
		"DeleteService":    Op(s.deleteService),
		"DescribeServices": Op(s.describeServices),
		"ListServices":     Op(s.listServices),
		"RunTask":          Op(s.runTask),
		"StartTask":        Op(s.startTask),
		"StopTask":         Op(s.stopTask),
		"DescribeTasks":    Op(s.describeTasks),
		"ListTasks":        Op(s.listTasks),

		"ListServiceDeployments":      Op(s.listServiceDeployments),
		"DescribeServiceDeployments":  Op(s.describeServiceDeployments),
		"StopServiceDeployment":       Op(s.stopServiceDeployment),
		"DescribeServiceRevisions":    Op(s.describeServiceRevisions),
		"CreateCapacityProvider":      Op(s.createCapacityProvider),
		"UpdateCapacityProvider":      Op(s.updateCapacityProvider),
		"DeleteCapacityProvider":      Op(s.deleteCapacityProvider),
		"DescribeCapacityProviders":   Op(s.describeCapacityProviders),
		"PutClusterCapacityProviders": Op(s.putClusterCapacityProviders),
		"UpdateTaskProtection":        Op(s.updateTaskProtection),
		"GetTaskProtection":           Op(s.getTaskProtection),
	}
}

// logged writes down who changed something.
func (s *server) logged(name string, f Operation) Operation {
	return func(ctx context.Context, body []byte) (any, error) {
		out, err := f(ctx, body)
		if r, ok := out.(raw); err == nil && (!ok || r.status < 300) {
			s.log.InfoContext(ctx, "changed through the API", "operation", name, "principal", Principal(ctx))
		}
		return out, err
	}
}

// digest tells the parameters of one call from those of another; the token must not be part of in.
func digest(in any) (string, error) {
	canonical, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	return cluster.Digest(string(canonical)), nil
}

// pass checks that the caller may use the roles.
func (s *server) pass(roles []string) error {
	for _, r := range roles {
		if s.enforce && !s.passable[r] {
			return cluster.Errorf(cluster.CodeAccessDenied, "Role %.200s may not be passed: it is not one of the installation's PassableRoleArns.", r)
		}
	}
	return nil
}
