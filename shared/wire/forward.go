package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// passOn is how an operation reaches ECS: checked, passed on as it came, and, where ECS carried it out, followed up.
type passOn[I any] struct {
	op    string
	check func(ctx context.Context, in *I) error
	// then may change the answer. What it fails to do is not the caller's concern: events and sweeps make up for it.
	then func(ctx context.Context, in *I, answer []byte) ([]byte, error)
}

// operation is the passing on as an [Operation] of the server.
func (p passOn[I]) operation(s *server) Operation {
	return func(ctx context.Context, body []byte) (any, error) {
		in := new(I)
		if err := decode(body, in); err != nil {
			return nil, err
		}
		if p.check != nil {
			if err := p.check(ctx, in); err != nil {
				return nil, err
			}
		}
		status, answer, err := s.ecs.Forward(ctx, p.op, body)
		if err != nil {
			return nil, fmt.Errorf("passing %s on to ECS: %w", p.op, err)
		}
		if p.then == nil || status != http.StatusOK {
			return raw{status, answer}, nil
		}
		changed, err := p.then(ctx, in, answer)
		if err != nil {
			s.log.ErrorContext(ctx, "following up on the API", "operation", p.op, "error", err)
			return raw{status, answer}, nil
		}
		return raw{status, changed}, nil
	}
}

// forwarded are the operations that ECS carries out, and those on tags, which may be either's.
func (s *server) forwarded() map[string]Operation {
	return map[string]Operation{
		"CreateCluster":    s.createCluster,
		"DescribeClusters": passOn[ecs.DescribeClustersInput]{"DescribeClusters", s.checkClusters, s.countServices}.operation(s),
		"ListClusters":     passOn[ecs.ListClustersInput]{op: "ListClusters"}.operation(s),
		"UpdateCluster":    passOn[ecs.UpdateClusterInput]{op: "UpdateCluster", check: s.checkUpdateCluster}.operation(s),
		"DeleteCluster":    passOn[ecs.DeleteClusterInput]{"DeleteCluster", s.deletingCluster, s.deletedCluster}.operation(s),

		"RegisterTaskDefinition":     passOn[ecs.RegisterTaskDefinitionInput]{op: "RegisterTaskDefinition", check: s.checkRegister}.operation(s),
		"DescribeTaskDefinition":     passOn[ecs.DescribeTaskDefinitionInput]{op: "DescribeTaskDefinition", check: s.checkDescribeDefinition}.operation(s),
		"ListTaskDefinitions":        passOn[ecs.ListTaskDefinitionsInput]{op: "ListTaskDefinitions"}.operation(s),
		"ListTaskDefinitionFamilies": passOn[ecs.ListTaskDefinitionFamiliesInput]{op: "ListTaskDefinitionFamilies"}.operation(s),
		"DeregisterTaskDefinition": passOn[ecs.DeregisterTaskDefinitionInput]{
			"DeregisterTaskDefinition", s.checkDeregister, s.deregistered,
		}.operation(s),
		"DeleteTaskDefinitions": passOn[ecs.DeleteTaskDefinitionsInput]{
			"DeleteTaskDefinitions", s.checkDeleteDefinitions, s.deletedDefinitions,
		}.operation(s),

		"ListContainerInstances": passOn[ecs.ListContainerInstancesInput]{
			op: "ListContainerInstances", check: func(_ context.Context, in *ecs.ListContainerInstancesInput) error {
				return s.checkInstances(in.Cluster)
			},
		}.operation(s),
		"DescribeContainerInstances": passOn[ecs.DescribeContainerInstancesInput]{
			op: "DescribeContainerInstances", check: s.checkDescribeInstances,
		}.operation(s),
		"UpdateContainerInstancesState": passOn[ecs.UpdateContainerInstancesStateInput]{
			"UpdateContainerInstancesState", s.checkInstancesState, s.changedInstances,
		}.operation(s),
		"RegisterContainerInstance": passOn[ecs.RegisterContainerInstanceInput]{
			"RegisterContainerInstance", s.checkRegisterInstance, s.registeredInstance,
		}.operation(s),
		"DeregisterContainerInstance": passOn[ecs.DeregisterContainerInstanceInput]{
			"DeregisterContainerInstance", s.checkDeregisterInstance, s.deregisteredInstance,
		}.operation(s),
		"PutAttributes":    passOn[ecs.PutAttributesInput]{"PutAttributes", s.checkPutAttributes, s.putAttributes}.operation(s),
		"DeleteAttributes": passOn[ecs.DeleteAttributesInput]{"DeleteAttributes", s.checkDeleteAttributes, s.deleteAttributes}.operation(s),
		"ListAttributes":   passOn[ecs.ListAttributesInput]{op: "ListAttributes", check: s.checkListAttributes}.operation(s),

		"TagResource":         s.tagResource,
		"UntagResource":       s.untagResource,
		"ListTagsForResource": s.listTags,
	}
}

func (s *server) checkCreateCluster(_ context.Context, in *ecs.CreateClusterInput) error {
	if name := value(in.ClusterName); name != "" && !names.MatchString(name) {
		return invalid("Invalid cluster name: it must have 1 to 255 letters, digits, hyphens and underscores.")
	}
	_, err := checkTags(in.Tags, nil)
	return err
}

func (s *server) createdCluster(ctx context.Context, in *ecs.CreateClusterInput, answer []byte) ([]byte, error) {
	name, err := s.cluster(in.ClusterName)
	if err != nil {
		return nil, err
	}
	return answer, s.scheduler.ClusterCreated(ctx, name)
}

func (s *server) checkClusters(_ context.Context, in *ecs.DescribeClustersInput) error {
	if len(in.Clusters) > 100 {
		return invalid("clusters cannot have more than 100 items.")
	}
	for _, ref := range in.Clusters {
		if _, err := s.cluster(&ref); err != nil {
			return err
		}
	}
	return nil
}

// countServices puts Berth's count of services where ECS, which has none, says 0. What else ECS says stays as it is.
func (s *server) countServices(ctx context.Context, _ *ecs.DescribeClustersInput, answer []byte) ([]byte, error) {
	var out map[string]json.RawMessage
	var clusters []map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(answer, &out), json.Unmarshal(out["clusters"], &clusters)); err != nil {
		return nil, fmt.Errorf("decoding an answer of ECS: %w", err)
	}
	for _, c := range clusters {
		var name, status string
		if err := errors.Join(json.Unmarshal(c["clusterName"], &name), json.Unmarshal(c["status"], &status)); err != nil {
			return nil, fmt.Errorf("decoding an answer of ECS: %w", err)
		}
		if status != "ACTIVE" {
			continue
		}
		n, err := s.scheduler.ServiceCount(ctx, name)
		if err != nil {
			return nil, err
		}
		c["activeServicesCount"], _ = json.Marshal(n) // an int cannot fail
		if err := s.attached(ctx, name, c); err != nil {
			return nil, err
		}
	}
	var err error
	if out["clusters"], err = json.Marshal(clusters); err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

func (s *server) checkUpdateCluster(_ context.Context, in *ecs.UpdateClusterInput) error {
	if err := required("cluster", in.Cluster); err != nil {
		return err
	}
	_, err := s.cluster(in.Cluster)
	return err
}

func (s *server) deletingCluster(ctx context.Context, in *ecs.DeleteClusterInput) error {
	if err := required("cluster", in.Cluster); err != nil {
		return err
	}
	name, err := s.cluster(in.Cluster)
	if err != nil {
		return err
	}
	return s.scheduler.DeletingCluster(ctx, name)
}

func (s *server) deletedCluster(ctx context.Context, in *ecs.DeleteClusterInput, answer []byte) ([]byte, error) {
	name, err := s.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	return answer, s.scheduler.ClusterDeleted(ctx, name)
}

// checkRegister holds the tags of Berth's own to their values, before ECS makes the revision and anybody uses it.
func (s *server) checkRegister(_ context.Context, in *ecs.RegisterTaskDefinitionInput) error {
	if _, err := checkTags(in.Tags, definitionTags); err != nil {
		return err
	}
	d, err := TaskDefinition(types.TaskDefinition{
		ContainerDefinitions: in.ContainerDefinitions, Cpu: in.Cpu, Memory: in.Memory, NetworkMode: in.NetworkMode,
		TaskRoleArn: in.TaskRoleArn, ExecutionRoleArn: in.ExecutionRoleArn,
	}, in.Tags)
	if err != nil {
		return err
	}
	return s.pass(d.Roles)
}

func (s *server) checkDefinition(ref *string) error {
	if err := required("taskDefinition", ref); err != nil {
		return err
	}
	_, err := s.definition(*ref)
	return err
}

func (s *server) checkDescribeDefinition(_ context.Context, in *ecs.DescribeTaskDefinitionInput) error {
	return s.checkDefinition(in.TaskDefinition)
}

func (s *server) checkDeregister(_ context.Context, in *ecs.DeregisterTaskDefinitionInput) error {
	return s.checkDefinition(in.TaskDefinition)
}

func (s *server) checkDeleteDefinitions(_ context.Context, in *ecs.DeleteTaskDefinitionsInput) error {
	if err := count("taskDefinitions", len(in.TaskDefinitions), 10); err != nil {
		return err
	}
	for _, ref := range in.TaskDefinitions {
		if err := s.checkDefinition(&ref); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) deregistered(ctx context.Context, _ *ecs.DeregisterTaskDefinitionInput, answer []byte) ([]byte, error) {
	var out ecs.DeregisterTaskDefinitionOutput
	if err := decodeAnswer(answer, &out); err != nil {
		return nil, err
	}
	return answer, s.ended(ctx, out.TaskDefinition)
}

func (s *server) deletedDefinitions(ctx context.Context, _ *ecs.DeleteTaskDefinitionsInput, answer []byte) ([]byte, error) {
	var out ecs.DeleteTaskDefinitionsOutput
	if err := decodeAnswer(answer, &out); err != nil {
		return nil, err
	}
	var failed []error
	for _, d := range out.TaskDefinitions {
		failed = append(failed, s.ended(ctx, &d))
	}
	return answer, errors.Join(failed...)
}

func (s *server) ended(ctx context.Context, d *types.TaskDefinition) error {
	if d == nil {
		return errors.New("ECS named no task definition")
	}
	return s.scheduler.TaskDefinitionChanged(ctx, cluster.TaskDefinitionName(value(d.Family), int(d.Revision)))
}

// instances reads the instances that a caller names.
func (s *server) instances(clusterRef *string, refs []string) (clusterName string, ids []string, err error) {
	if clusterName, err = s.cluster(clusterRef); err != nil {
		return "", nil, err
	}
	for _, ref := range refs {
		id, err := s.in(clusterName, "container-instance", ref)
		if err != nil {
			return "", nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return clusterName, ids, nil
}

func (s *server) checkInstances(clusterRef *string, refs ...string) error {
	_, _, err := s.instances(clusterRef, refs)
	return err
}

func (s *server) checkDescribeInstances(_ context.Context, in *ecs.DescribeContainerInstancesInput) error {
	if err := count("containerInstances", len(in.ContainerInstances), 100); err != nil {
		return err
	}
	return s.checkInstances(in.Cluster, in.ContainerInstances...)
}

func (s *server) checkInstancesState(_ context.Context, in *ecs.UpdateContainerInstancesStateInput) error {
	if err := count("containerInstances", len(in.ContainerInstances), 10); err != nil {
		return err
	}
	if st := in.Status; st != types.ContainerInstanceStatusActive && st != types.ContainerInstanceStatusDraining {
		return invalid("Container instance status should be one of [ACTIVE,DRAINING], not %.60q.", string(st))
	}
	return s.checkInstances(in.Cluster, in.ContainerInstances...)
}

func (s *server) changedInstances(ctx context.Context, in *ecs.UpdateContainerInstancesStateInput, answer []byte) ([]byte, error) {
	return answer, s.changed(ctx, in.Cluster, in.ContainerInstances)
}

func (s *server) checkRegisterInstance(_ context.Context, in *ecs.RegisterContainerInstanceInput) error {
	if _, err := checkTags(in.Tags, nil); err != nil {
		return err
	}
	return s.checkInstances(in.Cluster)
}

func (s *server) registeredInstance(ctx context.Context, in *ecs.RegisterContainerInstanceInput, answer []byte) ([]byte, error) {
	var out ecs.RegisterContainerInstanceOutput
	if err := decodeAnswer(answer, &out); err != nil {
		return nil, err
	}
	if out.ContainerInstance == nil {
		return nil, errors.New("ECS named no container instance")
	}
	return answer, s.changed(ctx, in.Cluster, []string{value(out.ContainerInstance.ContainerInstanceArn)})
}

func (s *server) checkDeregisterInstance(_ context.Context, in *ecs.DeregisterContainerInstanceInput) error {
	if err := required("containerInstance", in.ContainerInstance); err != nil {
		return err
	}
	return s.checkInstances(in.Cluster, *in.ContainerInstance)
}

func (s *server) deregisteredInstance(ctx context.Context, in *ecs.DeregisterContainerInstanceInput, answer []byte) ([]byte, error) {
	return answer, s.changed(ctx, in.Cluster, []string{*in.ContainerInstance})
}

func (s *server) changed(ctx context.Context, clusterRef *string, refs []string) error {
	clusterName, ids, err := s.instances(clusterRef, refs)
	if err != nil || len(ids) == 0 {
		return err
	}
	return s.scheduler.InstancesChanged(ctx, clusterName, ids)
}

// maxAttributes is how many attributes one call takes.
const maxAttributes = 10

// targets are the instances that the attributes are of.
func targets(attributes []types.Attribute) (refs []string) {
	for _, a := range attributes {
		if value(a.TargetId) != "" {
			refs = append(refs, *a.TargetId)
		}
	}
	return refs
}

func (s *server) checkAttributes(clusterRef *string, attributes []types.Attribute) error {
	if err := count("attributes", len(attributes), maxAttributes); err != nil {
		return err
	}
	for _, a := range attributes {
		if err := oneOf("targetType", a.TargetType, a.TargetType.Values()); err != nil {
			return err
		}
	}
	return s.checkInstances(clusterRef, targets(attributes)...)
}

func (s *server) checkPutAttributes(_ context.Context, in *ecs.PutAttributesInput) error {
	return s.checkAttributes(in.Cluster, in.Attributes)
}

func (s *server) checkDeleteAttributes(_ context.Context, in *ecs.DeleteAttributesInput) error {
	return s.checkAttributes(in.Cluster, in.Attributes)
}

func (s *server) putAttributes(ctx context.Context, in *ecs.PutAttributesInput, answer []byte) ([]byte, error) {
	return answer, s.changed(ctx, in.Cluster, targets(in.Attributes))
}

func (s *server) deleteAttributes(ctx context.Context, in *ecs.DeleteAttributesInput, answer []byte) ([]byte, error) {
	return answer, s.changed(ctx, in.Cluster, targets(in.Attributes))
}

func (s *server) checkListAttributes(_ context.Context, in *ecs.ListAttributesInput) error {
	if err := oneOf("targetType", in.TargetType, in.TargetType.Values()); err != nil {
		return err
	}
	return s.checkInstances(in.Cluster)
}
