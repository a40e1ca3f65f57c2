package wire

import (
	"regexp"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// launchType lets EC2 and EXTERNAL pass.
func launchType(t types.LaunchType) error {
	if err := oneOf("launchType", t, t.Values()); err != nil {
		return err
	}
	if t != "" && t != types.LaunchTypeEc2 && t != types.LaunchTypeExternal {
		return unsupported("launchType " + string(t))
	}
	return nil
}

// external says which of those of a launch type are asked for; nobody reports that there can be none.
func external(t types.LaunchType) (is *bool, nobody bool) {
	if t == "" {
		return nil, false
	}
	return new(t == types.LaunchTypeExternal), launchType(t) != nil
}

var tokens = regexp.MustCompile(`^[!-~]{0,64}$`)

// clientToken checks a caller's token: 64 characters of ASCII, which is RunTask's limit; CreateService's own is lower,
// and clients that keep to either are served.
func clientToken(t *string) (string, error) {
	if !tokens.MatchString(value(t)) {
		return "", invalid("clientToken must have at most 64 characters from ! to ~.")
	}
	return value(t), nil
}

// text is nil for an empty string: the protocol leaves out what is not there.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
