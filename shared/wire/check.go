package wire

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// TagWait on RunTask lets a task that fits nowhere wait in PROVISIONING instead of failing: "forever", or a duration as
// Go writes it, 1s to 720h ("10m", "24h").
const TagWait = "berth:wait"

const (
	waitForever = "forever"
	maxWait     = 720 * time.Hour
)

const (
	maxTags     = 50
	maxTagKey   = 128
	maxTagValue = 256
	// ownTags prefixes tags that Berth acts on; awsTags is AWS's own.
	ownTags = "berth:"
	awsTags = "aws:"
)

var tagText = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)

// checkTags gives the tags as a map. Of Berth's own tags those in allowed may be there, with a value that its check
// likes; one that is not known is a mistake and refused.
func checkTags(tags []types.Tag, allowed map[string]func(types.Tag) error) (map[string]string, error) {
	if len(tags) > maxTags {
		return nil, invalid("There are %d tags, but a resource has at most %d.", len(tags), maxTags)
	}
	if len(tags) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(tags))
	for _, t := range tags {
		key := value(t.Key)
		check, own := allowed[key]
		if err := checkTag(t, own); err != nil {
			return nil, err
		}
		if _, twice := out[key]; twice {
			return nil, invalid("Duplicate tag keys found: %s.", key)
		}
		if strings.HasPrefix(strings.ToLower(key), ownTags) {
			if !own {
				return nil, invalid("Tag %s is not known here.", key)
			}
			if err := check(t); err != nil {
				return nil, err
			}
		}
		out[key] = value(t.Value)
	}
	return out, nil
}

// checkTag holds a tag to AWS's rules. The value of one that Berth acts on may have any characters: an expression needs
// them, and AWS never sees it.
func checkTag(t types.Tag, own bool) error {
	key := value(t.Key)
	switch {
	case key == "" || utf8.RuneCountInString(key) > maxTagKey:
		return invalid("Tag key %.130q must have 1 to %d characters.", key, maxTagKey)
	case utf8.RuneCountInString(value(t.Value)) > maxTagValue:
		return invalid("The value of tag %s has more than %d characters.", key, maxTagValue)
	case strings.HasPrefix(strings.ToLower(key), awsTags):
		return invalid("Tag keys must not start with %s: %s.", awsTags, key)
	case !tagText.MatchString(key) || !own && !tagText.MatchString(value(t.Value)):
		return invalid("Tag %.130q has characters that tags do not have.", key)
	}
	return nil
}

// taskTags and definitionTags are what Berth knows of tags on RunTask and on task definitions; [ruleTags] those on
// services.
var (
	taskTags = func() map[string]func(types.Tag) error {
		out := map[string]func(types.Tag) error{TagWait: checkWait}
		for _, key := range []string{cluster.TagConstraint, cluster.TagMetrics, cluster.TagStrategy} {
			out[key] = ruleTags[key] // the others are about what a service keeps up
		}
		return out
	}()
	definitionTags = map[string]func(types.Tag) error{
		TagCPUMilli: func(t types.Tag) error { _, err := milli(t, 0, maxCPUMilli); return err },
		TagGPUMilli: func(t types.Tag) error { _, err := milli(t, 1, cluster.WholeGPU-1); return err },
	}
)

func checkWait(t types.Tag) error {
	if value(t.Value) == waitForever {
		return nil
	}
	if d, err := time.ParseDuration(value(t.Value)); err != nil || d < time.Second || d > maxWait {
		return invalid("Tag %s is %.40q, expected %q or a duration from 1s to %.0fh such as 10m.", TagWait, value(t.Value), waitForever, maxWait.Hours())
	}
	return nil
}

// member is one input member that Berth does not serve, and whether the caller uses it.
type unserved struct {
	name string
	used bool
}

// refuse names the first member in use that is not served: nothing is ignored silently.
func refuse(members ...unserved) error {
	for _, m := range members {
		if m.used {
			return unsupported(m.name)
		}
	}
	return nil
}

// required is the error of a member that must be there.
func required(member string, ref *string) error {
	if value(ref) == "" {
		return invalid("%s must not be empty.", member)
	}
	return nil
}

// count checks how many items a list has.
func count(member string, n, most int) error {
	switch {
	case n == 0:
		return invalid("%s cannot be empty.", member)
	case n > most:
		return invalid("%s cannot have more than %d items.", member, most)
	}
	return nil
}

// oneOf checks a member that has a few values, or none.
func oneOf[T ~string](member string, got T, known []T) error {
	if got == "" {
		return nil
	}
	var all []string
	for _, k := range known {
		if got == k {
			return nil
		}
		all = append(all, string(k))
	}
	return invalid("%s is %.60q, expected one of %s.", member, string(got), strings.Join(all, ", "))
}

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
