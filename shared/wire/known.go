package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"

	"berth/shared/cluster"
)

// known is what ECS said and will not take back: a revision's containers and an instance's zone never change. What has
// grown to the most is dropped whole.
type known struct {
	mu          sync.Mutex
	definitions map[string]*types.TaskDefinition // by family:revision
	zones       map[string]string                // by cluster/instance
}

const (
	mostDefinitions = 1000
	mostZones       = 10_000
)

func remember[V any](k *known, in *map[string]V, most int, add map[string]V) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if *in == nil || len(*in)+len(add) > most {
		*in = map[string]V{}
	}
	maps.Copy(*in, add)
}

func recall[V any](k *known, in *map[string]V, key string) (V, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := (*in)[key]
	return v, ok
}

// call asks ECS itself and reads the answer. Errors of the API are [cluster.Error].
func (s *server) call(ctx context.Context, op string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("asking ECS for %s: %w", op, err)
	}
	status, answer, err := s.ecs.Forward(ctx, op, body)
	if err != nil {
		return fmt.Errorf("asking ECS for %s: %w", op, err)
	}
	if status != http.StatusOK {
		return refusal(status, answer)
	}
	o, ok := out.(smithy.Deserializable)
	if !ok {
		return fmt.Errorf("asking ECS for %s: %T is no output of the ECS API", op, out)
	}
	return decodeAnswer(answer, o)
}

// refusal is an error in the protocol as [cluster.Error].
func refusal(status int, answer []byte) error {
	var e struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(answer, &e); err != nil || e.Type == "" {
		return fmt.Errorf("ECS answered with status %d: %.200q", status, answer)
	}
	return cluster.Errorf(cluster.Code(e.Type[strings.LastIndexByte(e.Type, '#')+1:]), "%s", e.Message)
}

// definitionNow asks ECS for a task definition as it is, by family or family:revision.
func (s *server) definitionNow(ctx context.Context, ref string) (*types.TaskDefinition, error) {
	var out ecs.DescribeTaskDefinitionOutput
	err := s.call(ctx, "DescribeTaskDefinition", map[string]string{"taskDefinition": ref}, &out)
	switch {
	case err != nil:
		return nil, err
	case out.TaskDefinition == nil:
		return nil, errors.New("asking ECS for DescribeTaskDefinition: no task definition in the answer")
	}
	d := out.TaskDefinition
	name := cluster.TaskDefinitionName(value(d.Family), int(d.Revision))
	remember(&s.known, &s.known.definitions, mostDefinitions, map[string]*types.TaskDefinition{name: d})
	return d, nil
}

// described is a revision's definition, perhaps as it once was: its status may have changed.
func (s *server) described(ctx context.Context, name string) (*types.TaskDefinition, error) {
	if d, ok := recall(&s.known, &s.known.definitions, name); ok {
		return d, nil
	}
	return s.definitionNow(ctx, name)
}

// usable checks that tasks of a definition may be started here, and by this caller, and gives its family:revision. What
// Berth cannot do for it yet is UnsupportedFeatureException.
func (s *server) usable(ctx context.Context, ref string, o *cluster.Overrides) (string, error) {
	d, err := s.described(ctx, ref) // a family's latest revision is asked for each time: only revisions are kept
	if err != nil {
		if cluster.ErrorCode(err) == cluster.CodeClient {
			err = cluster.Errorf(cluster.CodeClient, "TaskDefinition not found.")
		}
		return "", err
	}
	roles := []string{value(d.TaskRoleArn), value(d.ExecutionRoleArn)}
	if o != nil {
		roles = append(roles, o.TaskRole, o.ExecutionRole)
	}
	roles = slices.DeleteFunc(roles, func(r string) bool { return r == "" })
	if err := s.pass(roles); err != nil {
		return "", err
	}
	return cluster.TaskDefinitionName(value(d.Family), int(d.Revision)), refuse(
		//lint:ignore SA1019 old revisions can still have them, and they are refused by name
		unserved{"taskDefinition.inferenceAccelerators", len(d.InferenceAccelerators) > 0},
	)
}

// compatible refuses a definition that may not run there, in ECS's words.
func compatible(d *types.TaskDefinition, external bool) error {
	want := types.CompatibilityEc2
	if external {
		want = types.CompatibilityExternal
	}
	if len(d.Compatibilities) > 0 && !slices.Contains(d.Compatibilities, want) {
		return invalid("Task definition does not support launch_type %s.", want)
	}
	return nil
}

// zones are the availability zones of the tasks' instances, as far as ECS says.
func (s *server) zones(ctx context.Context, clusterName string, tasks []*cluster.Task) map[string]string {
	out := map[string]string{}
	var unknown []string
	for _, t := range tasks {
		if _, seen := out[t.Instance]; seen || t.Instance == "" {
			continue
		}
		zone, ok := recall(&s.known, &s.known.zones, clusterName+"/"+t.Instance)
		if out[t.Instance] = zone; !ok {
			unknown = append(unknown, t.Instance)
		}
	}
	if len(unknown) == 0 {
		return out
	}
	var answer ecs.DescribeContainerInstancesOutput
	in := map[string]any{"cluster": clusterName, "containerInstances": unknown}
	if err := s.call(ctx, "DescribeContainerInstances", in, &answer); err != nil {
		return out // a zone is not worth an error
	}
	fresh := map[string]string{}
	for _, i := range answer.ContainerInstances {
		v := Instance(clusterName, i)
		out[v.ID], fresh[clusterName+"/"+v.ID] = v.Zone(), v.Zone()
	}
	remember(&s.known, &s.known.zones, mostZones, fresh)
	return out
}
