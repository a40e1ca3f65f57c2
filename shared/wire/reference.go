package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"

	"berth/shared/cluster"
)

var (
	names       = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,255}$`)
	taskIDs     = regexp.MustCompile(`^[0-9a-fA-F-]{32,36}$`)
	definitions = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,255}(:[1-9][0-9]{0,9})?$`)
)

// references reads what callers name things by: a name or id, or an ARN of this account and Region. Everything else is
// InvalidParameterException.
type references struct{ account cluster.Account }

// cluster is the name of a cluster, "default" where the caller says nothing.
func (r references) cluster(ref *string) (string, error) {
	if value(ref) == "" {
		return "default", nil
	}
	name, err := r.resource("cluster", "", *ref)
	if err != nil {
		return "", err
	}
	if !names.MatchString(name) {
		return "", invalid("Invalid identifier: %.300q is no name of a cluster.", *ref)
	}
	return name, nil
}

// in is the name or id of something that lies in a cluster: a service or a container instance.
func (r references) in(clusterName, kind, ref string) (string, error) {
	name, err := r.resource(kind, clusterName, ref)
	if err != nil {
		return "", err
	}
	if !names.MatchString(name) {
		return "", invalid("Invalid identifier: %.300q is no name of a %s.", ref, kind)
	}
	return name, nil
}

// task is the id of a task: Berth's own, or ECS's.
func (r references) task(clusterName, ref string) (string, error) {
	id, err := r.resource("task", clusterName, ref)
	switch {
	case err != nil:
		return "", err
	case len(id) != 32 && len(id) != 36:
		return "", invalid("taskId length should be one of [32,36]")
	case !taskIDs.MatchString(id):
		return "", invalid("Invalid identifier: %.100q is no id of a task.", ref)
	}
	return id, nil
}

// definition is family or family:revision.
func (r references) definition(ref string) (string, error) {
	name, err := r.resource("task-definition", "", ref)
	if err != nil {
		return "", err
	}
	if !definitions.MatchString(name) {
		return "", invalid("Invalid identifier: %.300q is no task definition.", ref)
	}
	return name, nil
}

// resource takes the name out of a reference. An ARN must be of the kind and the cluster; a cluster of "" is any.
func (r references) resource(kind, clusterName, ref string) (string, error) {
	if !strings.HasPrefix(ref, "arn:") {
		return ref, nil
	}
	arn, err := r.arn(ref)
	switch {
	case err != nil:
		return "", err
	case arn.Kind != kind:
		return "", invalid("Invalid identifier: %.300s is not the ARN of a %s.", ref, kind)
	case clusterName != "" && arn.Cluster != "" && arn.Cluster != clusterName:
		return "", invalid("Invalid identifier: Identifier is for %s. Your cluster is %s", arn.Cluster, clusterName)
	}
	return arn.Name, nil
}

// arn takes an ARN of any kind apart, if it is of this account and Region.
func (r references) arn(s string) (cluster.ResourceARN, error) {
	arn, ok := cluster.ParseARN(s)
	if !ok {
		return arn, invalid("Invalid identifier: %.300q is no ARN of ECS.", s)
	}
	parts := strings.SplitN(s, ":", 6)
	here := strings.SplitN(r.account.ARN("x", "x"), ":", 6)
	for n, what := range []string{1: "partition", 3: "region", 4: "account"} {
		if what != "" && parts[n] != here[n] {
			return arn, invalid("Invalid identifier: Identifier is for %.64s. Your %s is %s", parts[n], what, here[n])
		}
	}
	return arn, nil
}

// token makes a nextToken of the last item given: opaque, and good for the same list only.
func token(list, last string) *string {
	t := base64.RawURLEncoding.EncodeToString(append(checksum(list, last), last...))
	return &t
}

const checksumSize = 9

func checksum(list, last string) []byte {
	sum := sha256.Sum256([]byte("nextToken\x00" + list + "\x00" + last))
	return sum[:checksumSize]
}

// after is the item that a nextToken continues after, empty for no token. A token of another list, or none of ours, is
// InvalidParameterException.
func after(list string, token *string) (string, error) {
	if value(token) == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(*token)
	if err != nil || len(raw) < checksumSize || string(checksum(list, string(raw[checksumSize:]))) != string(raw[:checksumSize]) {
		return "", invalid("Invalid token: %.100q", *token)
	}
	return string(raw[checksumSize:]), nil
}

// limit is how many items a page has at most.
func limit(maxResults *int32, otherwise int) (int, error) {
	switch {
	case maxResults == nil:
		return otherwise, nil
	case *maxResults < 1 || *maxResults > 100:
		return 0, invalid("maxResults is %d, but must be between 1 and 100.", *maxResults)
	}
	return int(*maxResults), nil
}
