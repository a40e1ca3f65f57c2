package ecsapi

import (
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/input"
	"berth/shared/wire/shape"
)

// parseRules reads placementConstraints, placementStrategy and the tags of Berth's own that stand
// for rules. Anything impossible is an InvalidParameterException. Expressions are only passed on:
// the scheduler parses them.
func parseRules(
	constraints []types.PlacementConstraint, strategies []types.PlacementStrategy, tags map[string]string,
) (r cluster.Rules, err error) {
	if r.Constraints, err = parseConstraints(constraints); err != nil {
		return r, err
	}
	if r.Strategies, err = parseStrategies(strategies); err != nil {
		return r, err
	}
	for _, key := range cluster.RuleTags {
		if text, ok := tags[key]; ok {
			if err := cluster.ApplyRuleTag(&r, key, text); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// parseConstraints reads at most 10 constraints. distinctInstance has no expression (text of ECS),
// memberOf has one.
func parseConstraints(in []types.PlacementConstraint) (out []cluster.PlacementConstraint, err error) {
	if len(in) > cluster.MaxConstraints {
		return nil, input.Invalid("placementConstraints cannot have more than %d items.", cluster.MaxConstraints)
	}
	for _, c := range in {
		expression := input.Value(c.Expression)
		switch {
		case c.Type == types.PlacementConstraintTypeDistinctInstance && expression != "":
			return nil, input.Invalid("distinctInstance expression should not be specified.")
		case c.Type == types.PlacementConstraintTypeMemberOf && expression == "":
			return nil, input.Invalid("A placement constraint of type memberOf must have an expression.")
		case c.Type == "":
			return nil, input.Invalid("A placement constraint must have a type.")
		}
		if err := input.CheckOneOf("placementConstraints.type", c.Type); err != nil {
			return nil, err
		}
		out = append(out, cluster.PlacementConstraint{Type: string(c.Type), Expression: expression})
	}
	return out, nil
}

// Fields of strategies besides attribute:NAME, as Berth stores them. ECS ignores case (ECS API
// reference, PlacementStrategy).
var (
	spreadFields  = []string{"instanceId", "host"}
	binpackFields = []string{"CPU", "MEMORY"}
)

// attributeField is the prefix of a field that names an attribute: attribute:ecs.availability-zone.
const attributeField = "attribute:"

// parseStrategies reads at most 5 strategies, which apply in their order (S3; texts of ECS).
func parseStrategies(in []types.PlacementStrategy) (out []cluster.PlacementStrategy, err error) {
	if len(in) > cluster.MaxStrategies {
		return nil, input.Invalid("Maximum number of strategies is %d.", cluster.MaxStrategies)
	}
	for _, s := range in {
		if s.Type == "" {
			return nil, input.Invalid("A placement strategy must have a type.")
		}
		if err := input.CheckOneOf("placementStrategy.type", s.Type); err != nil {
			return nil, err
		}
		field, ok := strategyField(s.Type, input.Value(s.Field))
		switch {
		case !ok && s.Type == types.PlacementStrategyTypeRandom:
			return nil, input.Invalid("random field should not be specified.")
		case !ok:
			return nil, input.Invalid("%s field '%.140s' is invalid.", s.Type, input.Value(s.Field))
		}
		out = append(out, cluster.PlacementStrategy{Type: string(s.Type), Field: field})
	}
	return out, nil
}

// strategyField returns the field as Berth stores it, MEMORY for binpack on "memory"; false if a
// strategy of that type has no such field.
func strategyField(t types.PlacementStrategyType, field string) (string, bool) {
	known := func(fields []string) (string, bool) {
		i := slices.IndexFunc(fields, func(f string) bool { return strings.EqualFold(f, field) })
		if i < 0 {
			return "", false
		}
		return fields[i], true
	}
	switch t {
	case types.PlacementStrategyTypeRandom:
		return "", field == ""
	case types.PlacementStrategyTypeBinpack:
		return known(binpackFields)
	}
	if name, ok := strings.CutPrefix(field, attributeField); ok {
		return field, input.IsAttributeName(name)
	}
	return known(spreadFields)
}

// constraintShapes writes constraints as the API shows them.
func constraintShapes(in []cluster.PlacementConstraint) []types.PlacementConstraint {
	return shape.ConvertEach(in, func(c cluster.PlacementConstraint) types.PlacementConstraint {
		return types.PlacementConstraint{Type: types.PlacementConstraintType(c.Type),
			Expression: shape.TextOrNil(c.Expression)}
	})
}

// strategyShapes writes strategies as the API shows them.
func strategyShapes(in []cluster.PlacementStrategy) []types.PlacementStrategy {
	return shape.ConvertEach(in, func(s cluster.PlacementStrategy) types.PlacementStrategy {
		return types.PlacementStrategy{Type: types.PlacementStrategyType(s.Type), Field: shape.TextOrNil(s.Field)}
	})
}

// checkLaunchType accepts EC2 and EXTERNAL, or none. Others that ECS has, such as FARGATE, are
// refused by name.
func checkLaunchType(t types.LaunchType) error {
	if !slices.Contains(append(t.Values(), ""), t) {
		return input.UnknownValue("launch type should be one of [EC2,FARGATE,EXTERNAL]")
	}
	if t != "" && t != types.LaunchTypeEc2 && t != types.LaunchTypeExternal {
		return input.Unsupported("launchType " + string(t))
	}
	return nil
}

const platformWords = "The platform version must be null when specifying an EC2 launch type."

// checkPlatformVersion refuses a platform version, which only Fargate has, in ECS's words.
func checkPlatformVersion(v *string) error {
	if input.Value(v) != "" {
		return input.Invalid(platformWords)
	}
	return nil
}

// parseExternal reads the launch type of a list's filter: nil for any, else whether it is EXTERNAL.
// isRefused reports that no task can have it, because Berth refuses it.
func parseExternal(t types.LaunchType) (is *bool, isRefused bool) {
	if t == "" {
		return nil, false
	}
	return new(t == types.LaunchTypeExternal), checkLaunchType(t) != nil
}

// tokens are the client tokens that ECS accepts: printable ASCII without spaces.
var tokens = regexp.MustCompile(`^[!-~]{0,64}$`)

// checkClientToken returns the caller's token, empty for none. The limit of 64 characters is
// RunTask's; CreateService's own is 36, so clients that keep to either are served.
func checkClientToken(t *string) (string, error) {
	if !tokens.MatchString(input.Value(t)) {
		return "", input.Invalid("clientToken must have at most 64 characters from ! to ~.")
	}
	return input.Value(t), nil
}
