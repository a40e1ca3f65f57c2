package ecsapi

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/wire/access"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
	"berth/shared/wire/shape"
	"berth/shared/wire/transport"
)

// tagOperations answers the operations on tags. Services, task sets, tasks and capacity providers
// have theirs with Berth, all other resources with ECS.
type tagOperations struct {
	input.References
	ecs       upstream
	tags      Tagging
	providers CapacityProviders
	clusters  Clusters
	access    *access.Policy
}

func (o *tagOperations) operations() map[string]awsjson.Operation {
	return map[string]awsjson.Operation{
		"TagResource":         o.tagResource,
		"UntagResource":       o.untagResource,
		"ListTagsForResource": o.listTags,
	}
}

// parseResource reads a resource's ARN. own reports whether Berth keeps its tags. The ARN of a
// service or task must be of the long format, which names the cluster:
// arn:aws:ecs:eu-west-1:123456789012:service/prod/web.
func (o *tagOperations) parseResource(
	ctx context.Context, resource *string,
) (arn cluster.ResourceARN, own bool, err error) {
	if err := input.CheckRequired("resourceArn", resource); err != nil {
		return arn, false, err
	}
	if arn, err = o.ReadARN(*resource); err != nil {
		return arn, false, err
	}
	switch arn.Kind {
	case "task-definition":
		return arn, false, nil
	case "cluster", "container-instance":
		if arn.Cluster == "" {
			return arn, false, input.Invalid("Long arn format must be used for tagging operations")
		}
		err := o.clusters.CheckManaged(ctx, arn.Cluster)
		if arn.Kind == "cluster" && cluster.ErrorCode(err) == cluster.CodeClusterNotFound {
			// ECS's words for a deleted cluster: clients take them as "it is gone".
			err = input.Invalid("The specified cluster is inactive. Specify an active cluster and try again.")
		}
		return arn, false, err
	case "capacity-provider":
		return arn, true, nil
	case "task-set":
		_, err := readTaskSet(o.References, arn.Cluster, "", *resource)
		return arn, true, err
	case "service", "task":
		if arn.Cluster == "" {
			return arn, true, input.Invalid("Long arn format must be used for tagging operations")
		}
		// This checks the characters of the name and that the cluster is of this account.
		_, err := o.NameIn(arn.Cluster, arn.Kind, *resource)
		return arn, true, err
	}
	return arn, false, input.Unsupported("tagging of " + arn.Kind + " resources")
}

// tagResource sets tags.
func (o *tagOperations) tagResource(ctx context.Context, body []byte) (any, error) {
	var in ecs.TagResourceInput
	if err := awsjson.DecodeInput(body, &in); err != nil {
		return nil, err
	}
	arn, own, err := o.parseResource(ctx, in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if err := input.CheckCount("tags", len(in.Tags), maxTags); err != nil {
		return nil, err
	}
	// Berth's own tags on tasks and task definitions count from the beginning or not at all, so
	// they cannot be set later. A service's rules may change at any time (P8).
	tags, err := checkTags(in.Tags, changeableTags(arn))
	if err != nil {
		return nil, err
	}
	if !own {
		return forwardOperation[ecs.TagResourceInput](o.ecs, "TagResource", nil, nil)(ctx, body)
	}
	if arn.Kind == "capacity-provider" {
		if err := o.checkScaling(ctx, "TagResource", slices.Sorted(maps.Keys(tags))); err != nil {
			return nil, err
		}
		return &ecs.TagResourceOutput{}, o.providers.TagCapacityProvider(ctx, arn.Name, tags, nil)
	}
	return &ecs.TagResourceOutput{}, o.tags.TagResource(ctx, arn, tags, nil)
}

// untagResource removes tags. Those of Berth's own can be removed where they can be set, those of
// AWS never.
func (o *tagOperations) untagResource(ctx context.Context, body []byte) (any, error) {
	var in ecs.UntagResourceInput
	if err := awsjson.DecodeInput(body, &in); err != nil {
		return nil, err
	}
	arn, own, err := o.parseResource(ctx, in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if err := input.CheckCount("tagKeys", len(in.TagKeys), maxTags); err != nil {
		return nil, err
	}
	for _, key := range in.TagKeys {
		// Removing a tag that only counts at the beginning would change nothing, so it is refused
		// too.
		_, free := changeableTags(arn)[key]
		if lower := strings.ToLower(key); !free && (strings.HasPrefix(lower, ownTags) ||
			strings.HasPrefix(lower, awsTags)) {
			return nil, input.Invalid("Tag %.128s cannot be removed.", key)
		}
	}
	if !own {
		return forwardOperation[ecs.UntagResourceInput](o.ecs, "UntagResource", nil, nil)(ctx, body)
	}
	if arn.Kind == "capacity-provider" {
		if err := o.checkScaling(ctx, "UntagResource", in.TagKeys); err != nil {
			return nil, err
		}
		return &ecs.UntagResourceOutput{}, o.providers.TagCapacityProvider(ctx, arn.Name, nil, in.TagKeys)
	}
	return &ecs.UntagResourceOutput{}, o.tags.TagResource(ctx, arn, nil, in.TagKeys)
}

// listTags answers with a resource's tags, sorted by their keys.
func (o *tagOperations) listTags(ctx context.Context, body []byte) (any, error) {
	var in ecs.ListTagsForResourceInput
	if err := awsjson.DecodeInput(body, &in); err != nil {
		return nil, err
	}
	arn, own, err := o.parseResource(ctx, in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if !own {
		return forwardOperation[ecs.ListTagsForResourceInput](o.ecs, "ListTagsForResource", nil, nil)(ctx, body)
	}
	find := o.tags.ResourceTags
	if arn.Kind == "capacity-provider" {
		find = func(ctx context.Context, of cluster.ResourceARN) (map[string]string, error) {
			return o.providers.CapacityProviderTags(ctx, of.Name)
		}
	}
	tags, err := find(ctx, arn)
	if err != nil {
		return nil, err
	}
	return &ecs.ListTagsForResourceOutput{Tags: shape.TagShapes(tags)}, nil
}

// checkScaling refuses to set or remove the tags of managed scaling for a caller without the right
// to manage node groups: they change what UpdateCapacityProvider, which needs it, would change.
func (o *tagOperations) checkScaling(ctx context.Context, operation string, keys []string) error {
	for _, key := range keys {
		if slices.Contains(cluster.ScalingTags, key) {
			return o.access.CheckRight(transport.Principal(ctx), operation+" with "+key, access.ManageNodeGroups)
		}
	}
	return nil
}

// changeableTags returns the tags of Berth's own that can be set and removed on an existing
// resource, with the check of their values.
func changeableTags(of cluster.ResourceARN) map[string]func(types.Tag) error {
	switch of.Kind {
	case "service":
		return ruleTags
	case "capacity-provider":
		return scalingTags
	}
	return nil
}

// TagWait on RunTask lets a task that finds no instance wait as PROVISIONING instead of failing:
// "forever", or a duration from 1s to 720h in Go's notation ("10m", "24h").
const TagWait = "berth:wait"

const (
	waitForever = "forever"
	maxWait     = 720 * time.Hour
)

// Bounds of tags (ECS quotas).
const (
	// maxTags is how many tags a resource has.
	maxTags = 50
	// maxTagKey and maxTagValue are lengths in characters.
	maxTagKey   = 128
	maxTagValue = 256
	ownTags     = cluster.OwnTags
	awsTags     = cluster.AWSTags
)

// tagText matches the characters of keys and values of AWS's tags.
var tagText = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)

// checkTags returns the tags as a map. Of Berth's own tags only those in allowed may be set, with a
// value that their check accepts. An unknown one is refused, because it is probably misspelt.
func checkTags(tags []types.Tag, allowed map[string]func(types.Tag) error) (map[string]string, error) {
	if len(tags) > maxTags {
		return nil, input.Invalid("There are %d tags, but a resource has at most %d.", len(tags), maxTags)
	}
	if len(tags) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(tags))
	for _, t := range tags {
		key := input.Value(t.Key)
		check, own := allowed[key]
		if err := checkTag(t, own); err != nil {
			return nil, err
		}
		if _, twice := out[key]; twice {
			return nil, input.Invalid("Duplicate tag keys found: %s.", key)
		}
		// In any case of letters: Berth:Wait would look like a tag that has an effect.
		if strings.HasPrefix(strings.ToLower(key), ownTags) {
			if !own {
				return nil, input.Invalid("Tag %s is not known here%s", key,
					choice.End(key, slices.Collect(maps.Keys(allowed))))
			}
			if err := check(t); err != nil {
				return nil, err
			}
		}
		out[key] = input.Value(t.Value)
	}
	return out, nil
}

// checkTag checks a tag by AWS's rules. The value of a tag of Berth's own may have any characters:
// expressions need them, and AWS never gets to see it.
func checkTag(t types.Tag, own bool) error {
	key := input.Value(t.Key)
	switch {
	case key == "" || utf8.RuneCountInString(key) > maxTagKey:
		return input.Invalid("Tag key %.130q must have 1 to %d characters.", key, maxTagKey)
	case utf8.RuneCountInString(input.Value(t.Value)) > maxTagValue:
		return input.Invalid("The value of tag %s has more than %d characters.", key, maxTagValue)
	case strings.HasPrefix(strings.ToLower(key), awsTags):
		return input.Invalid("Tag key %q starts with %s, which is reserved.", key, awsTags)
	case !tagText.MatchString(key) || !own && !tagText.MatchString(input.Value(t.Value)):
		return input.Invalid("Tag %.130q has characters that tags do not have.", key)
	}
	return nil
}

// taskTags are the tags that RunTask acts on. The other rules concern what a service keeps running.
var taskTags = map[string]func(types.Tag) error{
	TagWait: checkWait, cluster.TagConstraint: ruleTags[cluster.TagConstraint],
	cluster.TagMetrics:  ruleTags[cluster.TagMetrics],
	cluster.TagStrategy: ruleTags[cluster.TagStrategy], cluster.TagTolerations: ruleTags[cluster.TagTolerations],
}

// checkWait checks the value of [TagWait].
func checkWait(t types.Tag) error {
	if input.Value(t.Value) == waitForever {
		return nil
	}
	if d, err := time.ParseDuration(input.Value(t.Value)); err != nil || d < time.Second || d > maxWait {
		return input.Invalid("Tag %s is %.40q, expected %q or a duration from 1s to %.0fh such as 10m%s", TagWait,
			input.Value(t.Value), waitForever, maxWait.Hours(),
			choice.End(input.Value(t.Value), []string{waitForever}))
	}
	return nil
}

// ruleTags are the checks of the tags that stand for a service's placement rules.
var ruleTags = func() map[string]func(types.Tag) error {
	out := map[string]func(types.Tag) error{}
	for _, key := range cluster.RuleTags {
		out[key] = func(t types.Tag) error {
			err := cluster.ApplyRuleTag(new(cluster.Rules), key, input.Value(t.Value))
			if e := new(cluster.Error); errors.As(err, &e) {
				return input.Invalid("Tag %s: %s", key, e.Message)
			}
			return err
		}
	}
	return out
}()
