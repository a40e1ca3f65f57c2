package wire_test

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
	"berth/shared/wire/awsjson"
)

var account = cluster.Account{ID: "123456789012", Region: "eu-west-1"}

// scheduler keeps services and tasks in memory as the real one does, but starts nothing.
type scheduler struct {
	mu        sync.Mutex
	clusters  map[string]bool
	services  map[string]*operation.ServiceDetail // by cluster/name
	tasks     []*cluster.Task                     // sorted by id
	tokens    map[string][]*cluster.Task
	lastSpec  operation.SubmitTasks
	lastMade  operation.CreateService
	lastEdit  operation.UpdateService
	lastQuery operation.ListTasks
	instances operation.ListInstances // the last list
	told      []string                // what the API has made known
	failures  []cluster.Failure
	deferred  map[string]*operation.Deregistration // by family:revision
	launches  map[string]operation.TaskLaunch      // of tasks, by id

	configured *cluster.Configuration
	balanced   string // the cluster that RequestBalance was called for
	reported   []cluster.LoadReport

	releases  []*operation.ReleaseDetail // newest first
	revisions []*operation.RevisionDetail
	stopped   []string
	throttle  *cluster.Throttle
	capacity  []state.Row
	protected map[string]time.Duration // by task id
	lastList  operation.ListServiceDeployments

	providerRows
}

func newScheduler() *scheduler {
	return &scheduler{
		clusters: map[string]bool{"default": true, "prod": true}, services: map[string]*operation.ServiceDetail{},
		tokens: map[string][]*cluster.Task{},
	}
}

func (s *scheduler) in(name string) error {
	if !s.clusters[name] {
		return cluster.Errorf(cluster.CodeClusterNotFound, "Cluster not found.")
	}
	return nil
}

func (s *scheduler) CreateService(_ context.Context, spec operation.CreateService) (*operation.ServiceDetail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastMade = spec
	if err := s.in(spec.Cluster); err != nil {
		return nil, err
	}
	if old := s.services[spec.Cluster+"/"+spec.Name]; old != nil {
		if spec.Token != "" && old.Service.Token == spec.Token && old.Service.Params == spec.Params {
			return old, nil
		}
		return nil, cluster.Errorf(cluster.CodeInvalidParameter, "Creation of service was not idempotent.")
	}
	d := &operation.ServiceDetail{Service: &cluster.Service{
		Head: cluster.Head{Cluster: spec.Cluster, Rev: 1},
		ServiceIdentity: cluster.ServiceIdentity{
			Name: spec.Name, CreatedAt: noon, CreatedBy: spec.CreatedBy, Token: spec.Token, Params: spec.Params,
			Controller: spec.Controller,
		},
		ServiceSpec: cluster.ServiceSpec{
			Strategy: cluster.Replica, MinHealthy: 100, MaxPercent: 200, Tags: spec.Tags, Rules: spec.Rules,
		},
		ServiceStatus: cluster.ServiceStatus{
			Status: cluster.ServiceActive,
			Deployment: cluster.Deployment{UpdatedAt: noon, Revision: cluster.Revision{
				ID: "ecs-svc/1234567890123456789", CreatedAt: noon, TaskDefinition: spec.TaskDefinition,
			}},
		},
	}}
	if d.Service.HasTaskSets() {
		d.Service.SetTaskSets(nil, "")
	}
	if spec.Strategy != "" {
		d.Service.Strategy = spec.Strategy
	}
	for to, from := range map[*int]*int{&d.Service.Desired: spec.Desired, &d.Service.MinHealthy: spec.MinHealthy,
		&d.Service.MaxPercent: spec.MaxPercent} {
		if from != nil {
			*to = *from
		}
	}
	s.services[spec.Cluster+"/"+spec.Name] = d
	return d, nil
}

func (s *scheduler) service(clusterName, name string) (*operation.ServiceDetail, error) {
	if err := s.in(clusterName); err != nil {
		return nil, err
	}
	if d := s.services[clusterName+"/"+name]; d != nil {
		return d, nil
	}
	return nil, cluster.Errorf(cluster.CodeServiceNotFound, "Service not found.")
}

func (s *scheduler) UpdateService(_ context.Context, c operation.UpdateService) (*operation.ServiceDetail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.service(c.Cluster, c.Name)
	if err == nil && c.Desired != nil {
		d.Service.Desired = *c.Desired
	}
	if err == nil {
		s.lastEdit = c
	}
	return d, err
}

func (s *scheduler) DeleteService(
	_ context.Context, clusterName, name string, force bool,
) (*operation.ServiceDetail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.service(clusterName, name)
	if err != nil {
		return nil, err
	}
	if d.Service.Desired > 0 && !force {
		return nil, cluster.Errorf(cluster.CodeInvalidParameter,
			"The service cannot be stopped while it is scaled above 0.")
	}
	d.Service.Status, d.Service.Desired = cluster.ServiceDraining, 0
	return d, nil
}

func (s *scheduler) DescribeServices(_ context.Context, clusterName string, names []string) (
	found []*operation.ServiceDetail, missing []cluster.Failure, err error,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if d := s.services[clusterName+"/"+name]; d != nil {
			found = append(found, d)
		} else {
			missing = append(missing, cluster.Failure{ARN: name, Reason: "MISSING"})
		}
	}
	return found, missing, s.in(clusterName)
}

func (s *scheduler) ListServices(_ context.Context, q operation.ListServices) (names []string, more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.services)) {
		name, ok := strings.CutPrefix(key, q.Cluster+"/")
		if d := s.services[key]; !ok || name <= q.After || d.Service.Status != cluster.ServiceActive ||
			q.Strategy != "" && d.Service.Strategy != q.Strategy {
			continue
		}
		if len(names) == q.Limit {
			return names, true, s.in(q.Cluster)
		}
		names = append(names, name)
	}
	return names, false, s.in(q.Cluster)
}

func (s *scheduler) FindCreatedService(
	_ context.Context, spec operation.CreateService,
) (*operation.ServiceDetail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.services[spec.Cluster+"/"+spec.Name]; old != nil && spec.Token != "" &&
		old.Service.Token == spec.Token && old.Service.Params == spec.Params {
		return old, nil
	}
	return nil, nil
}

func (s *scheduler) FindSubmittedTasks(
	_ context.Context, spec operation.SubmitTasks,
) ([]*cluster.Task, []cluster.Failure, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.tokens[spec.Token]
	if spec.Token == "" || old == nil {
		return nil, nil, false, nil
	}
	if s.lastSpec.Count != spec.Count {
		conflict := &cluster.Error{Code: cluster.CodeConflict, Message: "The clientToken was used before."}
		for _, t := range old {
			conflict.Resources = append(conflict.Resources, t.ID)
		}
		return nil, nil, false, conflict
	}
	return old, nil, s.lastSpec.Params == spec.Params, nil
}

func (s *scheduler) SubmitTasks(
	_ context.Context, spec operation.SubmitTasks,
) ([]*cluster.Task, []cluster.Failure, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastSpec = spec
	if err := s.in(spec.Cluster); err != nil {
		return nil, nil, err
	}
	if old := s.tokens[spec.Token]; spec.Token != "" && old != nil {
		return old, nil, nil
	}
	var made []*cluster.Task
	for n := range max(spec.Count, len(spec.Instances)) {
		t := &cluster.Task{
			Head: cluster.Head{Cluster: spec.Cluster, Rev: 1},
			TaskSpec: cluster.TaskSpec{
				ID: cluster.Digest("task", string(rune(len(s.tasks)))), Group: spec.Group,
				TaskDefinition: spec.TaskDefinition,
				Needs:          cluster.Resources{CPU: 256 * cluster.CPUUnit, Memory: 512}, Overrides: spec.Overrides,
				StartedByUser: spec.StartedBy, Tags: spec.Tags, CreatedAt: cluster.At(noon),
			},
			TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning},
		}
		if spec.Kind == cluster.StartTask {
			t.Instance = spec.Instances[n]
		}
		made, s.tasks = append(made, t), append(s.tasks, t)
	}
	slices.SortFunc(s.tasks, func(a, b *cluster.Task) int { return strings.Compare(a.ID, b.ID) })
	s.tokens[spec.Token] = made
	return made, s.failures, nil
}

func (s *scheduler) task(clusterName, id string) *cluster.Task {
	for _, t := range s.tasks {
		if t.Cluster == clusterName && (t.ID == id || t.ECSID == id) {
			return t
		}
	}
	return nil
}

func (s *scheduler) StopTask(_ context.Context, clusterName, id, reason string) (*cluster.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.task(clusterName, id)
	if t == nil {
		return nil, cluster.Errorf(cluster.CodeInvalidParameter, "The referenced task was not found.")
	}
	t.Desired, t.StopCode, t.Reason = cluster.TaskStopped, cluster.StopUserInitiated, reason
	return t, nil
}

func (s *scheduler) DescribeTasks(_ context.Context, clusterName string, ids []string) (
	found []*cluster.Task, missing []cluster.Failure, err error,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if t := s.task(clusterName, id); t != nil {
			found = append(found, t)
		} else {
			missing = append(missing, cluster.Failure{ARN: id, Reason: "MISSING"})
		}
	}
	return found, missing, s.in(clusterName)
}

func (s *scheduler) TaskLaunches(context.Context, []*cluster.Task) (map[string]operation.TaskLaunch, error) {
	return s.launches, nil
}

func (s *scheduler) ListTasks(_ context.Context, q operation.ListTasks) (page operation.TaskPage, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastQuery = q
	for _, t := range s.tasks {
		if t.Cluster != q.Cluster || t.ID <= q.After || q.StartedBy != "" && t.StartedByUser != q.StartedBy {
			continue
		}
		if len(page.IDs) == q.Limit {
			page.Next = page.IDs[len(page.IDs)-1]
			return page, s.in(q.Cluster)
		}
		page.IDs = append(page.IDs, t.ID)
	}
	return page, s.in(q.Cluster)
}

func (s *scheduler) tagged(kind, clusterName, name string) (*map[string]string, error) {
	if kind == "service" {
		d, err := s.service(clusterName, name)
		if err != nil {
			return nil, err
		}
		return &d.Service.Tags, nil
	}
	if t := s.task(clusterName, name); t != nil {
		return &t.Tags, nil
	}
	return nil, cluster.Errorf(cluster.CodeInvalidParameter, "The referenced task was not found.")
}

func (s *scheduler) TagResource(
	_ context.Context, of cluster.ResourceARN, set map[string]string, remove []string,
) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tags, err := s.tagged(of.Kind, of.Cluster, of.Name)
	if err != nil {
		return err
	}
	next := map[string]string{}
	maps.Copy(next, *tags)
	maps.Copy(next, set)
	for _, key := range remove {
		delete(next, key)
	}
	*tags = next
	return nil
}

func (s *scheduler) ResourceTags(_ context.Context, of cluster.ResourceARN) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tags, err := s.tagged(of.Kind, of.Cluster, of.Name)
	if err != nil {
		return nil, err
	}
	return *tags, nil
}

func (s *scheduler) note(what ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, strings.Join(what, " "))
	return nil
}

func (s *scheduler) CheckManaged(_ context.Context, name string) error { return s.in(name) }

// ListInstances answers as if every filter held on three instances.
func (s *scheduler) ListInstances(_ context.Context, q operation.ListInstances) ([]string, bool, error) {
	s.instances = q
	ids, more, err := page([]string{"0a", "0b", "0c"}, operation.ListNodeGroups{After: q.After, Limit: q.Limit})
	return ids, more, cmp.Or(s.in(q.Cluster), err)
}

func (s *scheduler) ManagedClusters(context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(s.clusters)), nil
}

func (s *scheduler) SuggestFamily(_ context.Context, name string, refused error) error {
	if name == "shp:1" {
		return cluster.Errorf(cluster.ErrorCode(refused), "%v The nearest family is \"shop\".", refused)
	}
	return refused
}

func (s *scheduler) ClusterCreated(_ context.Context, name string) error {
	return s.note("created", name)
}
func (s *scheduler) ClusterDeleted(_ context.Context, name string) error {
	return s.note("deleted", name)
}

func (s *scheduler) CheckDeletable(ctx context.Context, name string) error {
	if n, _ := s.ClusterCounts(ctx, name); n.EC2.ActiveServices > 0 {
		return cluster.Errorf(cluster.CodeContainsServices, "The Cluster cannot be deleted while Services are active.")
	}
	return nil
}

func (s *scheduler) ClusterCounts(_ context.Context, name string) (out operation.ClusterCounts, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, d := range s.services {
		if strings.HasPrefix(key, name+"/") && d.Service.Status == cluster.ServiceActive {
			out.EC2.ActiveServices++
			out.EC2.Running += d.Service.Running
		}
	}
	return out, nil
}

func (s *scheduler) InstancesChanged(_ context.Context, clusterName string, ids []string) error {
	return s.note("instances", clusterName, strings.Join(ids, ","))
}

func (s *scheduler) TaskDefinitionChanged(_ context.Context, name string) error {
	return s.note("definition", name)
}

func (s *scheduler) DeferDeregistration(_ context.Context, name string) (*operation.Deregistration, error) {
	return s.deferred[name], nil
}

func (s *scheduler) DeferDeletion(
	_ context.Context, names []string,
) (map[string]*operation.Deregistration, error) {
	out := map[string]*operation.Deregistration{}
	for _, name := range names {
		if d := s.deferred[name]; d != nil {
			d.DeleteAt = d.At
			out[name] = d
		}
	}
	return out, nil
}

func (s *scheduler) DeferredDeregistrations(
	_ context.Context, family string,
) (out []*operation.Deregistration, _ error) {
	for _, d := range s.deferred {
		if family == "" || d.Family == family {
			out = append(out, d)
		}
	}
	return out, nil
}

// cloud is ECS as far as the tests need it: it records each call and answers some.
type cloud struct {
	mux   *awsjson.Mux
	calls []string
	tasks []types.Task
	// revisions are what the lists of task definitions have.
	revisions []revision
	last      []byte // the body of the last call
	down      error
}

var shop = types.TaskDefinition{
	Family: new("shop"), Revision: 3, Status: types.TaskDefinitionStatusActive,
	Compatibilities:   []types.Compatibility{types.CompatibilityEc2},
	TaskDefinitionArn: new("arn:aws:ecs:eu-west-1:123456789012:task-definition/shop:3"), RegisteredAt: &noon,
	ContainerDefinitions: []types.ContainerDefinition{
		{
			Name: new("app"), Image: new("shop"), Cpu: 256, Memory: new(int32(512)),
			HealthCheck:  &types.HealthCheck{Command: []string{"CMD", "true"}},
			PortMappings: []types.PortMapping{{ContainerPort: new(int32(80))}},
		},
		{Name: new("log"), Image: new("log"), Essential: new(false), Memory: new(int32(64))},
	},
}

// special has definitions whose tasks cannot be started, or not by everybody.
var special = map[string]types.TaskDefinition{
	"fargate": {Compatibilities: []types.Compatibility{types.CompatibilityFargate}},
	"anywhere": {Compatibilities: []types.Compatibility{types.CompatibilityExternal},
		ContainerDefinitions: shop.ContainerDefinitions},
	"awsvpc": {NetworkMode: types.NetworkModeAwsvpc, ContainerDefinitions: shop.ContainerDefinitions},
	"host":   {NetworkMode: types.NetworkModeHost, ContainerDefinitions: shop.ContainerDefinitions},
	"fixed": {ContainerDefinitions: []types.ContainerDefinition{{Name: new("app"),
		PortMappings: []types.PortMapping{{ContainerPort: new(int32(80)), HostPort: new(int32(8080))}}}}},
	"bound": {PlacementConstraints: []types.TaskDefinitionPlacementConstraint{{Type: types.TaskDefinitionPlacementConstraintTypeMemberOf}}},
	"volume": {Volumes: []types.Volume{{Name: new("data"), ConfiguredAtLaunch: new(true)}, {Name: new("host")}},
		ContainerDefinitions: shop.ContainerDefinitions},
	"roles": {TaskRoleArn: new("arn:aws:iam::123456789012:role/task")},
}

func newCloud() *cloud {
	c := new(cloud)
	c.mux = awsjson.NewMux(map[string]awsjson.Operation{
		"DescribeTaskDefinition": awsjson.TypedOperation(func(_ context.Context,
			in *ecs.DescribeTaskDefinitionInput) (*ecs.DescribeTaskDefinitionOutput, error) {
			family, _, _ := strings.Cut(cluster.LastPart(*in.TaskDefinition), ":")
			if d, ok := special[family]; ok {
				d.Family, d.Revision = &family, 1
				return &ecs.DescribeTaskDefinitionOutput{TaskDefinition: &d}, nil
			}
			if family != "shop" {
				return nil, cluster.Errorf(cluster.CodeClient, "Unable to describe task definition.")
			}
			return &ecs.DescribeTaskDefinitionOutput{TaskDefinition: &shop}, nil
		}),
		"DescribeContainerInstances": awsjson.TypedOperation(func(_ context.Context,
			in *ecs.DescribeContainerInstancesInput) (*ecs.DescribeContainerInstancesOutput, error) {
			var out ecs.DescribeContainerInstancesOutput
			for _, id := range in.ContainerInstances {
				out.ContainerInstances = append(out.ContainerInstances, types.ContainerInstance{
					ContainerInstanceArn: new(account.ARN("container-instance", "prod", id)),
					Attributes: []types.Attribute{{Name: new(cluster.AttributeZone),
						Value: new("eu-west-1a")}},
				})
			}
			return &out, nil
		}),
		"DescribeTasks": func(context.Context, []byte) (any, error) {
			return &ecs.DescribeTasksOutput{Tasks: c.tasks}, nil
		},
		"DescribeClusters": func(context.Context, []byte) (any, error) {
			return &ecs.DescribeClustersOutput{Clusters: []types.Cluster{
				{ClusterName: new("prod"), Status: new("ACTIVE"), RunningTasksCount: 7},
				{ClusterName: new("old"), Status: new("INACTIVE")},
			}}, nil
		},
		"DeregisterTaskDefinition": awsjson.TypedOperation(func(context.Context,
			*ecs.DeregisterTaskDefinitionInput) (*ecs.DeregisterTaskDefinitionOutput, error) {
			return &ecs.DeregisterTaskDefinitionOutput{TaskDefinition: &shop}, nil
		}),
		"DeleteTaskDefinitions": awsjson.TypedOperation(func(context.Context,
			*ecs.DeleteTaskDefinitionsInput) (*ecs.DeleteTaskDefinitionsOutput, error) {
			return &ecs.DeleteTaskDefinitionsOutput{TaskDefinitions: []types.TaskDefinition{shop}}, nil
		}),
		"CreateCluster": awsjson.TypedOperation(fine[ecs.CreateClusterInput, ecs.CreateClusterOutput]),
		"ListClusters":  awsjson.TypedOperation(fine[ecs.ListClustersInput, ecs.ListClustersOutput]),
		"UpdateCluster": awsjson.TypedOperation(fine[ecs.UpdateClusterInput, ecs.UpdateClusterOutput]),
		"DeleteCluster": awsjson.TypedOperation(fine[ecs.DeleteClusterInput, ecs.DeleteClusterOutput]),
		"RegisterTaskDefinition": awsjson.TypedOperation(fine[ecs.RegisterTaskDefinitionInput,
			ecs.RegisterTaskDefinitionOutput]),
		"ListTaskDefinitions":        awsjson.TypedOperation(c.listTaskDefinitions),
		"ListTaskDefinitionFamilies": awsjson.TypedOperation(c.listFamilies),
		"ListContainerInstances": awsjson.TypedOperation(fine[ecs.ListContainerInstancesInput,
			ecs.ListContainerInstancesOutput]),
		"UpdateContainerInstancesState": awsjson.TypedOperation(fine[ecs.UpdateContainerInstancesStateInput,
			ecs.UpdateContainerInstancesStateOutput]),
		"DeregisterContainerInstance": awsjson.TypedOperation(fine[ecs.DeregisterContainerInstanceInput,
			ecs.DeregisterContainerInstanceOutput]),
		"PutAttributes": awsjson.TypedOperation(fine[ecs.PutAttributesInput, ecs.PutAttributesOutput]),
		"DeleteAttributes": awsjson.TypedOperation(fine[ecs.DeleteAttributesInput,
			ecs.DeleteAttributesOutput]),
		"ListAttributes": awsjson.TypedOperation(fine[ecs.ListAttributesInput,
			ecs.ListAttributesOutput]),
		"TagResource":   awsjson.TypedOperation(fine[ecs.TagResourceInput, ecs.TagResourceOutput]),
		"UntagResource": awsjson.TypedOperation(fine[ecs.UntagResourceInput, ecs.UntagResourceOutput]),
		"ListTagsForResource": awsjson.TypedOperation(fine[ecs.ListTagsForResourceInput,
			ecs.ListTagsForResourceOutput]),
	})
	return c
}

func fine[I, O any](context.Context, *I) (*O, error) { return new(O), nil }

func (c *cloud) Forward(ctx context.Context, op string, body []byte) (int, []byte, error) {
	c.calls, c.last = append(c.calls, op), body
	if c.down != nil {
		return 0, nil, c.down
	}
	status, answer := c.mux.ServeOperation(ctx, op, body)
	return status, answer, nil
}

// after returns the time d after noon.
func after(d time.Duration) time.Time { return noon.Add(d) }

func (s *scheduler) ClusterConfiguration(_ context.Context, clusterName string) (*cluster.Configuration, error) {
	if err := s.in(clusterName); err != nil {
		return nil, err
	}
	if c := s.configured; c != nil && c.Cluster == clusterName {
		return c, nil
	}
	return &cluster.Configuration{Head: cluster.Head{Cluster: clusterName}}, nil
}

func (s *scheduler) PutConfiguration(_ context.Context, c *cluster.Configuration) error {
	s.configured = c
	return s.in(c.Cluster)
}

func (s *scheduler) RequestBalance(_ context.Context, name string) error {
	s.balanced = name
	return s.in(name)
}

func (s *scheduler) UpdateRules(
	_ context.Context, clusterName, name string, tags map[string]string,
) (*operation.ServiceDetail, error) {
	d, err := s.service(clusterName, name)
	if err != nil {
		return nil, err
	}
	for key, text := range tags {
		if err := cluster.ApplyRuleTag(&d.Service.Rules, key, text); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (s *scheduler) ReportLoads(
	_ context.Context, clusterName string, reports []cluster.LoadReport,
) (missing []cluster.Failure, err error) {
	for _, r := range reports {
		if s.task(clusterName, r.Task) == nil {
			missing = append(missing, cluster.Failure{ARN: r.Task, Reason: "MISSING"})
			continue
		}
		s.reported = append(s.reported, r)
	}
	return missing, s.in(clusterName)
}

func (s *scheduler) ListRows(_ context.Context, clusterName, after string) (rows []state.Row, more bool, err error) {
	for _, t := range s.tasks {
		if state.KeyOf(t).Sort > after && len(rows) < 2 {
			rows = append(rows, t)
		} else if state.KeyOf(t).Sort > after {
			return rows, true, nil
		}
	}
	return rows, false, s.in(clusterName)
}

// Now is noon.
func (s *scheduler) Now() time.Time { return noon }

func (s *scheduler) DisconnectTimeout() time.Duration { return 90 * time.Second }

func (s *scheduler) Generation(_ context.Context, clusterName string) (string, error) {
	return "7-here-3", s.in(clusterName)
}

func (s *scheduler) CapacityRows(_ context.Context, clusterName string) ([]state.Row, error) {
	return s.capacity, s.in(clusterName)
}
