package wire

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// routed takes a resource's ARN apart and says whose tags they are: a service's and a task's are Berth's, those of
// clusters, task definitions and container instances ECS's.
func (s *server) routed(resource *string) (arn cluster.ResourceARN, own bool, err error) {
	if err := required("resourceArn", resource); err != nil {
		return arn, false, err
	}
	if arn, err = s.arn(*resource); err != nil {
		return arn, false, err
	}
	switch arn.Kind {
	case "cluster", "task-definition", "container-instance":
		return arn, false, nil
	case "capacity-provider":
		return arn, true, nil
	case "service", "task":
		if arn.Cluster == "" {
			return arn, true, invalid("Long arn format must be used for tagging operations")
		}
		_, err := s.in(arn.Cluster, arn.Kind, *resource)
		return arn, true, err
	}
	return arn, false, unsupported("tagging of " + arn.Kind + " resources")
}

func (s *server) tagResource(ctx context.Context, body []byte) (any, error) {
	var in ecs.TagResourceInput
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	arn, own, err := s.routed(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if err := count("tags", len(in.Tags), maxTags); err != nil {
		return nil, err
	}
	// What Berth's own tags say of tasks and task definitions counts from the beginning or not at all, so none may come
	// later; a service's rules may change at any time (P8).
	tags, err := checkTags(in.Tags, later(arn))
	if err != nil {
		return nil, err
	}
	if !own {
		return passOn[ecs.TagResourceInput]{op: "TagResource"}.operation(s)(ctx, body)
	}
	if arn.Kind == "capacity-provider" {
		return &ecs.TagResourceOutput{}, s.scheduler.TagCapacityProvider(ctx, arn.Name, tags, nil)
	}
	return &ecs.TagResourceOutput{}, s.scheduler.Tag(ctx, arn, tags, nil)
}

// later are the tags of Berth's own that may be set and removed when the resource is there already.
func later(of cluster.ResourceARN) map[string]func(types.Tag) error {
	switch of.Kind {
	case "service":
		return ruleTags
	case "capacity-provider":
		return scalingTags
	}
	return nil
}

func (s *server) untagResource(ctx context.Context, body []byte) (any, error) {
	var in ecs.UntagResourceInput
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	arn, own, err := s.routed(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if err := count("tagKeys", len(in.TagKeys), maxTags); err != nil {
		return nil, err
	}
	for _, key := range in.TagKeys {
		_, free := later(arn)[key]
		if lower := strings.ToLower(key); !free && (strings.HasPrefix(lower, ownTags) || strings.HasPrefix(lower, awsTags)) {
			return nil, invalid("Tag %.128s cannot be removed.", key)
		}
	}
	if !own {
		return passOn[ecs.UntagResourceInput]{op: "UntagResource"}.operation(s)(ctx, body)
	}
	if arn.Kind == "capacity-provider" {
		return &ecs.UntagResourceOutput{}, s.scheduler.TagCapacityProvider(ctx, arn.Name, nil, in.TagKeys)
	}
	return &ecs.UntagResourceOutput{}, s.scheduler.Tag(ctx, arn, nil, in.TagKeys)
}

func (s *server) listTags(ctx context.Context, body []byte) (any, error) {
	var in ecs.ListTagsForResourceInput
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	arn, own, err := s.routed(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if !own {
		return passOn[ecs.ListTagsForResourceInput]{op: "ListTagsForResource"}.operation(s)(ctx, body)
	}
	find := s.scheduler.Tags
	if arn.Kind == "capacity-provider" {
		find = func(ctx context.Context, of cluster.ResourceARN) (map[string]string, error) {
			return s.scheduler.CapacityProviderTags(ctx, of.Name)
		}
	}
	tags, err := find(ctx, arn)
	if err != nil {
		return nil, err
	}
	return &ecs.ListTagsForResourceOutput{Tags: Tags(tags)}, nil
}
