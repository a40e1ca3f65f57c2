package ecsapi

import (
	"regexp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/wire/input"
)

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
