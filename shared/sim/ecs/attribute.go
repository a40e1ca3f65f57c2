package ecs

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// maxCustom is how many custom attributes an instance can have, and how many one call can name
// (ECS, service quotas: custom attributes per resource).
const maxCustom = 10

// The names and values of attributes (ECS API, Attribute).
var (
	attributeNames  = regexp.MustCompile(`^[a-zA-Z0-9_./\\-]{1,128}$`)
	attributeValues = regexp.MustCompile(`^[a-zA-Z0-9_./\\@: -]{1,128}$`)
)

// checkAttribute checks a custom attribute. Values may have spaces inside, but not around them. The
// prefixes of ECS and of its agents are reserved, so that no writer can pretend a capability.
func checkAttribute(name, value string) error {
	switch {
	case !attributeNames.MatchString(name):
		return invalidParameter(
			"Attribute name %.140q is invalid: 1 to 128 letters, digits, hyphens, underscores, slashes, back "+
				"slashes or periods.", name)
	case value != "" && (!attributeValues.MatchString(value) || strings.TrimSpace(value) != value):
		return invalidParameter("Attribute value %.140q is invalid.", value)
	case strings.HasPrefix(name, "ecs.") || strings.HasPrefix(name, "com.amazonaws."):
		return invalidParameter("Attribute name %.140q has a reserved prefix.", name)
	}
	return nil
}

// targetInstance returns the ACTIVE or DRAINING instance that an attribute belongs to.
func (e *Attributes) targetInstance(c *ecsCluster, a types.Attribute) (*instance, error) {
	if a.TargetType != "" && a.TargetType != types.TargetTypeContainerInstance {
		return nil, invalidParameter("The target type must be container-instance.")
	}
	i := e.findInstance(c, value(a.TargetId))
	if i == nil || i.Status == cluster.InstanceInactive {
		return nil, cluster.Errorf(cluster.CodeTargetNotFound, "The specified target was not found: %.200s.",
			value(a.TargetId))
	}
	return i, nil
}

// PutAttributes sets all of the custom attributes, or none if one is invalid.
func (e *Attributes) PutAttributes(_ context.Context, in *ecs.PutAttributesInput) (*ecs.PutAttributesOutput, error) {
	err := e.editAttributes(value(in.Cluster), in.Attributes,
		func(list []attribute, a types.Attribute) ([]attribute, error) {
			if err := checkAttribute(value(a.Name), value(a.Value)); err != nil {
				return nil, err
			}
			next := attribute{Name: *a.Name, Value: value(a.Value), Custom: true}
			at, found := slices.BinarySearchFunc(list, next, byName)
			if found {
				list[at] = next
				return list, nil
			}
			return slices.Insert(list, at, next), nil
		})
	return &ecs.PutAttributesOutput{Attributes: in.Attributes}, err
}

// DeleteAttributes removes all of the custom attributes, or none if one does not exist.
func (e *Attributes) DeleteAttributes(
	_ context.Context, in *ecs.DeleteAttributesInput,
) (*ecs.DeleteAttributesOutput, error) {
	err := e.editAttributes(value(in.Cluster), in.Attributes,
		func(list []attribute, a types.Attribute) ([]attribute, error) {
			at, found := slices.BinarySearchFunc(list, attribute{Name: value(a.Name)}, byName)
			if !found || !list[at].Custom || a.Value != nil && *a.Value != list[at].Value {
				return nil, cluster.Errorf(cluster.CodeTargetNotFound, "The specified attribute was not found: %.140s.",
					value(a.Name))
			}
			return slices.Delete(list, at, at+1), nil
		})
	return &ecs.DeleteAttributesOutput{Attributes: in.Attributes}, err
}

// editAttributes edits the attributes of the instances named, on copies that it takes over only
// after every edit has succeeded. Each instance emits one event, in the order of its first mention.
func (e *Attributes) editAttributes(
	clusterName string, attributes []types.Attribute, edit func([]attribute, types.Attribute) ([]attribute, error),
) error {
	return e.kernel.Change(e.inCluster(clusterName, func(c *ecsCluster, now time.Time) error {
		if len(attributes) == 0 || len(attributes) > maxCustom {
			return invalidParameter("Attributes must have 1 to %d items.", maxCustom)
		}
		edited := map[*instance][]attribute{}
		var order []*instance
		for _, a := range attributes {
			i, err := e.targetInstance(c, a)
			if err != nil {
				return err
			}
			list, seen := edited[i]
			if !seen {
				list, order = slices.Clone(i.Attributes), append(order, i)
			}
			if edited[i], err = edit(list, a); err != nil {
				return err
			}
			if countCustom(edited[i]) > maxCustom {
				return cluster.Errorf(cluster.CodeAttributeLimit,
					"You can have at most %d custom attributes per resource.", maxCustom)
			}
		}
		for _, i := range order {
			i.Attributes = edited[i]
			i.attributesChanged()
			e.instanceChanged(i, now)
		}
		return nil
	}))
}

// countCustom counts the attributes that the quota is about. Those of the agent are free.
func countCustom(list []attribute) (n int) {
	for _, a := range list {
		if a.Custom {
			n++
		}
	}
	return n
}

// ListAttributes lists attributes of instances, by name and value where given. The order is by
// instance and name, because a page's token is its last item.
func (e *Attributes) ListAttributes(_ context.Context, in *ecs.ListAttributesInput) (*ecs.ListAttributesOutput, error) {
	if in.TargetType != types.TargetTypeContainerInstance {
		return nil, invalidParameter("The target type must be container-instance.")
	}
	var out ecs.ListAttributesOutput
	err := e.kernel.View(e.inCluster(value(in.Cluster), func(c *ecsCluster, _ time.Time) error {
		found := map[string]types.Attribute{}
		for _, i := range c.instances {
			for _, a := range i.Attributes {
				if i.Status == cluster.InstanceInactive || a.Name != cmp.Or(value(in.AttributeName), a.Name) ||
					a.Value != cmp.Or(value(in.AttributeValue), a.Value) {
					continue
				}
				attr := types.Attribute{Name: new(a.Name), TargetId: &i.arn}
				if a.Value != "" {
					attr.Value = new(a.Value)
				}
				found[i.ID+"/"+a.Name] = attr
			}
		}
		var err error
		out.Attributes, out.NextToken, err = pageOfFound("ListAttributes", found, in.NextToken, in.MaxResults, false)
		return err
	}))
	return &out, err
}
