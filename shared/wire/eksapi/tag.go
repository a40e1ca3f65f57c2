package eksapi

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"berth/shared/cluster"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
)

type tagInput struct {
	Tags map[string]string `json:"tags"`
}

// tagsOutput has all tags of a resource.
type tagsOutput struct {
	Tags map[string]string `json:"tags"`
}

// tagResource sets tags of a node group. Its others stay.
func (e *server) tagResource(ctx context.Context, c *call) (any, error) {
	var in tagInput
	if err := awsjson.DecodeInput(c.body, &in); err != nil {
		return nil, err
	}
	if len(in.Tags) == 0 {
		return nil, badRequest("tags must not be empty.")
	}
	if err := checkTags(in.Tags); err != nil {
		return nil, tagError(err)
	}
	if _, given := in.Tags[cluster.AutoScalingTag]; given {
		return nil, badRequest("The tag %s cannot be changed: it names the node group's Auto Scaling group.",
			cluster.AutoScalingTag)
	}
	g, err := e.findTagged(ctx, c)
	if err != nil {
		return nil, err
	}
	return struct{}{}, tagError(e.groups.TagNodeGroup(ctx, g.Ref(), in.Tags, nil))
}

// untagResource removes tags of a node group. One that it does not have is no error.
func (e *server) untagResource(ctx context.Context, c *call) (any, error) {
	keys := c.query["tagKeys"]
	switch {
	case len(keys) == 0 || len(keys) > maxTags:
		return nil, badRequest("tagKeys must have 1 to %d items.", maxTags)
	case slices.Contains(keys, cluster.AutoScalingTag):
		return nil, badRequest("The tag %s cannot be removed: it names the node group's Auto Scaling group.",
			cluster.AutoScalingTag)
	}
	g, err := e.findTagged(ctx, c)
	if err != nil {
		return nil, err
	}
	return struct{}{}, tagError(e.groups.TagNodeGroup(ctx, g.Ref(), nil, keys))
}

func (e *server) listTagsForResource(ctx context.Context, c *call) (any, error) {
	g, err := e.findTagged(ctx, c)
	if err != nil {
		return nil, err
	}
	out := tagsOutput{g.Tags}
	if out.Tags == nil {
		out.Tags = map[string]string{}
	}
	return out, nil
}

// findTagged returns the node group that the ARN in the path names. Only node groups have tags of
// the EKS API; clusters have those of the ECS API.
func (e *server) findTagged(ctx context.Context, c *call) (*cluster.NodeGroup, error) {
	if rest, ok := strings.CutPrefix(c.resource, e.account.EKSClusterARN("")); ok && !strings.Contains(rest, "/") {
		return nil, badRequest("Tags of cluster %.100s are not supported here: it has those of the ECS API.", rest)
	}
	parts := strings.Split(c.resource, "/")
	if len(parts) != 4 || c.resource != e.account.NodeGroupARN(parts[1], parts[2], parts[3]) {
		return nil, badRequest("resourceArn is %.300q, expected the ARN of a node group of this account and Region.",
			c.resource)
	}
	if err := checkNames(parts[1], parts[2]); err != nil {
		return nil, badRequest("resourceArn is %.300q, expected the ARN of a node group.", c.resource)
	}
	g, err := e.groups.DescribeNodeGroup(ctx, parts[1], parts[2])
	code := cluster.ErrorCode(err)
	switch {
	case code == cluster.CodeClusterNotFound || code == cluster.CodeResourceNotFound || err == nil && g.ID != parts[3]:
		return nil, cluster.Errorf(cluster.CodeNotFound, "No node group found for ARN: %.300s", c.resource)
	case err != nil:
		return nil, err
	}
	return g, nil
}

// Bounds of tags (EKS API reference, TagResource and CreateNodegroup).
const (
	maxTags     = 50
	maxTagKey   = 128
	maxTagValue = 256
)

// checkTags checks tags by AWS's rules; what they do not allow is an InvalidParameterException. Of
// Berth's own tags a node group has [cluster.AutoScalingTag] alone: another one is refused, because
// it is probably misspelt, and a group of the user's would be replaced by one that Berth makes.
func checkTags(tags map[string]string) error {
	if len(tags) > maxTags {
		return input.Invalid("There are %d tags, but a node group has at most %d.", len(tags), maxTags)
	}
	for key, v := range tags {
		lower := strings.ToLower(key)
		switch {
		case key == "" || utf8.RuneCountInString(key) > maxTagKey:
			return input.Invalid("Tag key %.130q must have 1 to %d characters.", key, maxTagKey)
		case utf8.RuneCountInString(v) > maxTagValue:
			return input.Invalid("The value of tag %s has more than %d characters.", key, maxTagValue)
		case strings.HasPrefix(lower, cluster.AWSTags):
			return input.Invalid("Tag key %q starts with %s, which is reserved.", key, cluster.AWSTags)
		case strings.HasPrefix(lower, cluster.OwnTags) && key != cluster.AutoScalingTag:
			return input.Invalid("Tag %q is not known here: of Berth's own tags a node group has %s alone.", key,
				cluster.AutoScalingTag)
		}
	}
	return nil
}

// tagError returns an error as the operations on tags have it: what other operations call an
// invalid parameter, such as too many tags, is a bad request.
func tagError(err error) error {
	var e *cluster.Error
	if errors.As(err, &e) && e.Code == cluster.CodeInvalidParameter {
		return badRequest("%s", e.Message)
	}
	return err
}

// badRequest is how EKS refuses the input of its operations on tags.
func badRequest(format string, args ...any) error {
	return cluster.Errorf(cluster.CodeBadRequest, format, args...)
}
