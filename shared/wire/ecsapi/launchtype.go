package ecsapi

import (
	"regexp"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/wire/input"
)

// checkLaunchType lets EC2 and EXTERNAL pass.
func checkLaunchType(t types.LaunchType) error {
	if err := input.CheckOneOf("launchType", t); err != nil {
		return err
	}
	if t != "" && t != types.LaunchTypeEc2 && t != types.LaunchTypeExternal {
		return input.Unsupported("launchType " + string(t))
	}
	return nil
}

// parseExternal says which of those of a launch type are asked for; nobody reports that there can
// be none.
func parseExternal(t types.LaunchType) (is *bool, nobody bool) {
	if t == "" {
		return nil, false
	}
	return new(t == types.LaunchTypeExternal), checkLaunchType(t) != nil
}

var tokens = regexp.MustCompile(`^[!-~]{0,64}$`)

// checkClientToken checks a caller's token: 64 characters of ASCII, which is RunTask's limit;
// CreateService's own is lower, and clients that keep to either are served.
func checkClientToken(t *string) (string, error) {
	if !tokens.MatchString(input.Value(t)) {
		return "", input.Invalid("clientToken must have at most 64 characters from ! to ~.")
	}
	return input.Value(t), nil
}
