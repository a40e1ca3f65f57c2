package ecsapi

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/input"
)

// A cache keeps answers of ECS that never change. It is emptied when it would grow beyond most
// entries: simpler than evicting the oldest, and rare.
type cache[V any] struct {
	most int

	mu     sync.Mutex
	values map[string]V
}

func (c *cache[V]) put(key string, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.values == nil || len(c.values) >= c.most {
		c.values = map[string]V{}
	}
	c.values[key] = v
}

func (c *cache[V]) get(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.values[key]
	return v, ok
}

// taskDefinitions looks task definitions up at ECS. The containers of a revision never change, so
// each revision is asked for once.
type taskDefinitions struct {
	ecs      upstream
	roles    roles
	clusters Clusters                     // names the nearest family
	kept     cache[*types.TaskDefinition] // by family:revision
}

// fetchDefinition asks ECS for a task definition, by family or family:revision.
func (t *taskDefinitions) fetchDefinition(ctx context.Context, ref string) (*types.TaskDefinition, error) {
	var out ecs.DescribeTaskDefinitionOutput
	err := t.ecs.callECS(ctx, "DescribeTaskDefinition", map[string]string{"taskDefinition": ref}, &out)
	switch {
	case err != nil:
		return nil, err
	case out.TaskDefinition == nil:
		return nil, errors.New("asking ECS for DescribeTaskDefinition: no task definition in the answer")
	}
	d := out.TaskDefinition
	// Kept by its revision even if it was asked for by family: what a family means changes.
	name := cluster.TaskDefinitionName(input.Value(d.Family), int(d.Revision))
	t.kept.put(name, d)
	return d, nil
}

// cachedDefinition returns a task definition, from the cache if it is named by revision. Its status
// may have changed since.
func (t *taskDefinitions) cachedDefinition(ctx context.Context, name string) (*types.TaskDefinition, error) {
	if d, ok := t.kept.get(name); ok {
		return d, nil
	}
	return t.fetchDefinition(ctx, name)
}

// checkUsable checks that this caller may start tasks of a definition, and returns its
// family:revision. Its roles and those of the overrides, if any, must be passable. What Berth
// cannot do for the definition is an UnsupportedFeatureException.
func (t *taskDefinitions) checkUsable(ctx context.Context, ref string, o *cluster.Overrides) (string, error) {
	d, err := t.cachedDefinition(ctx, ref) // a family's latest revision is asked for each time: only revisions are kept
	if err != nil {
		if cluster.ErrorCode(err) == cluster.CodeClient {
			err = t.clusters.SuggestFamily(ctx, ref, cluster.Errorf(cluster.CodeClient, "TaskDefinition not found."))
		}
		return "", err
	}
	roles := []string{input.Value(d.TaskRoleArn), input.Value(d.ExecutionRoleArn)}
	if o != nil {
		roles = append(roles, o.TaskRole, o.ExecutionRole)
	}
	// A definition or an override may name no role.
	roles = slices.DeleteFunc(roles, func(r string) bool { return r == "" })
	if err := t.roles.checkPassable(roles); err != nil {
		return "", err
	}
	return cluster.TaskDefinitionName(input.Value(d.Family), int(d.Revision)), refuseUnserved(
		//lint:ignore SA1019 old revisions can still have them, and they are refused by name
		unserved{"taskDefinition.inferenceAccelerators", len(d.InferenceAccelerators) > 0},
	)
}

// checkCompatible refuses a definition that was not validated for the launch type, in ECS's words.
func checkCompatible(d *types.TaskDefinition, external bool) error {
	want := types.CompatibilityEc2
	if external {
		want = types.CompatibilityExternal
	}
	if len(d.Compatibilities) > 0 && !slices.Contains(d.Compatibilities, want) {
		return input.Invalid("Task definition does not support launch_type %s.", want)
	}
	return nil
}

// roles are the task and execution roles that callers may use; any if enforce is not set.
type roles struct {
	passable []string
	enforce  bool
}

// checkPassable refuses roles that callers may not use. IAM checks only that Berth's own role may
// pass them.
func (p roles) checkPassable(names []string) error {
	for _, r := range names {
		if p.enforce && !slices.Contains(p.passable, r) {
			return cluster.Errorf(cluster.CodeAccessDenied,
				"Role %.200s may not be passed: it is not one of the installation's PassableRoleArns.", r)
		}
	}
	return nil
}
