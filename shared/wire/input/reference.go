package input

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// ReadInstances returns the cluster and the ids of the container instances that a caller names,
// each once.
func (r References) ReadInstances(clusterRef *string, refs []string) (clusterName string, ids []string, err error) {
	if clusterName, err = r.ClusterName(clusterRef); err != nil {
		return "", nil, err
	}
	ids, err = ReadEach(refs, func(ref string) (string, error) {
		return r.NameIn(clusterName, "container-instance", ref)
	})
	return clusterName, withoutRepeats(ids), err
}

// ReadEach reads references in their order, and fails with the first that cannot be read.
func ReadEach[T any](refs []string, read func(ref string) (T, error)) (out []T, err error) {
	for _, ref := range refs {
		one, err := read(ref)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// withoutRepeats keeps the first of equal ids.
func withoutRepeats(ids []string) (out []string) {
	for _, id := range ids {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// ReadTasks returns the cluster and the ids of 1 to most tasks that a caller names, each once.
func (r References) ReadTasks(
	clusterRef *string, refs []string, most int,
) (clusterName string, ids []string, err error) {
	if clusterName, err = r.ClusterName(clusterRef); err != nil {
		return "", nil, err
	}
	if err := CheckCount("tasks", len(refs), most); err != nil {
		return "", nil, err
	}
	ids, err = ReadEach(refs, func(ref string) (string, error) { return r.TaskID(clusterName, ref) })
	return clusterName, withoutRepeats(ids), err
}

// ReadService reads the two members that name a service.
func (r References) ReadService(clusterRef, ref *string) (clusterName, name string, err error) {
	if clusterName, err = r.ClusterName(clusterRef); err != nil {
		return "", "", err
	}
	if err = CheckRequired("service", ref); err != nil {
		return "", "", err
	}
	name, err = r.NameIn(clusterName, "service", *ref)
	return clusterName, name, err
}

// ReadRecord reads the ARN of a service deployment or revision: kind/cluster/service/id.
func (r References) ReadRecord(kind, ref string) (out operation.RecordRef, err error) {
	arn, err := r.ReadARN(ref)
	if err != nil {
		return out, err
	}
	parts := strings.Split(arn.Name, "/")
	if arn.Kind != kind || len(parts) != 3 || !IsName(parts[0]) || !IsName(parts[1]) ||
		!recordIDs.MatchString(parts[2]) {
		return out, Invalid("Invalid identifier: %.300s is not the ARN of a %s.", ref, kind)
	}
	return operation.RecordRef{Cluster: parts[0], Service: parts[1], ID: parts[2]}, nil
}

// maxRecords is how many ARNs DescribeServiceDeployments and DescribeServiceRevisions take (ECS API
// reference).
const maxRecords = 20

// ReadRecords reads 1 to 20 ARNs of service deployments or revisions.
func (r References) ReadRecords(member, kind string, refs []string) (out []operation.RecordRef, err error) {
	if err := CheckCount(member, len(refs), maxRecords); err != nil {
		return nil, err
	}
	return ReadEach(refs, func(ref string) (operation.RecordRef, error) { return r.ReadRecord(kind, ref) })
}

// recordIDs are the ids of both: digits of a revision, or a service deployment's own.
var recordIDs = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// CapacityProviderName returns the name of a capacity provider, given by name or ARN.
func (r References) CapacityProviderName(ref string) (string, error) {
	name, err := r.readName("capacity-provider", "", ref)
	switch {
	case err != nil:
		return "", err
	case !IsProviderName(name):
		return "",
			Invalid("The capacity provider name is invalid: %.300q must have 1 to 255 letters, digits, hyphens and "+
				"underscores.", ref)
	}
	return name, nil
}

// AutoScalingGroupName returns the name in an Auto Scaling group's ARN of this account and Region.
// Group names may contain colons and slashes, so everything behind the prefix belongs to the name.
func (r References) AutoScalingGroupName(arn string) (string, error) {
	parts := strings.SplitN(arn, ":", 8)
	here := strings.SplitN(r.Account.ARN("x", "x"), ":", 6)
	here[2] = "autoscaling"
	name, found := "", false
	if len(parts) == 8 && slices.Equal(parts[:5], here[:5]) && parts[5] == "autoScalingGroup" &&
		groupIDs.MatchString(parts[6]) {
		name, found = strings.CutPrefix(parts[7], "autoScalingGroupName/")
	}
	if n := utf8.RuneCountInString(name); !found || n < 1 || n > maxGroupName {
		return "", cluster.Errorf(cluster.CodeClient,
			"The specified Auto Scaling group ARN is not valid. Ensure that the ARN references an existing Auto "+
				"Scaling group and try again.")
	}
	return name, nil
}

// maxGroupName is how many characters the name of an Auto Scaling group has (EC2 Auto Scaling API
// reference, CreateAutoScalingGroup).
const maxGroupName = 255

// groupIDs are the ids in the ARNs of Auto Scaling groups, which AWS makes as UUIDs.
var groupIDs = regexp.MustCompile(`^[0-9A-Za-z-]{1,64}$`)

var providerNames = regexp.MustCompile(`^[A-Za-z0-9_-]{1,255}$`)

// Patterns of names and ids (ECS API reference). A task's id has 32 hex digits, or the 36
// characters of an old UUID.
var (
	names       = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,255}$`)
	taskIDs     = regexp.MustCompile(`^[0-9a-fA-F-]{32,36}$`)
	definitions = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,255}(:[1-9][0-9]{0,9})?$`)
)

// References reads what callers name things by: a name or id, or an ARN of this account and Region.
// Anything else is an InvalidParameterException.
type References struct{ Account cluster.Account }

// ClusterName returns the name of a cluster; [cluster.DefaultName] if the caller says nothing, as
// with ECS.
func (r References) ClusterName(ref *string) (string, error) {
	if Value(ref) == "" {
		return cluster.DefaultName, nil
	}
	name, err := r.readName("cluster", "", *ref)
	if err != nil {
		return "", err
	}
	if !IsName(name) {
		return "", Invalid("Invalid identifier: %.300q is no name of a cluster.", *ref)
	}
	return name, nil
}

// NameIn returns the name or id of something in a cluster: kind is service or container-instance.
// An ARN must be of that cluster.
func (r References) NameIn(clusterName, kind, ref string) (string, error) {
	name, err := r.readName(kind, clusterName, ref)
	if err != nil {
		return "", err
	}
	if !IsName(name) {
		return "", Invalid("Invalid identifier: %.300q is no name of a %s.", ref, kind)
	}
	return name, nil
}

// TaskID returns the id of a task, which may be Berth's or ECS's.
func (r References) TaskID(clusterName, ref string) (string, error) {
	id, err := r.readName("task", clusterName, ref)
	switch {
	case err != nil:
		return "", err
	case len(id) != 32 && len(id) != 36:
		return "", Invalid("taskId length should be one of [32,36]")
	case !taskIDs.MatchString(id):
		return "", Invalid("Invalid identifier: %.100q is no id of a task.", ref)
	}
	return id, nil
}

// TaskDefinitionName returns family or family:revision.
func (r References) TaskDefinitionName(ref string) (string, error) {
	name, err := r.readName("task-definition", "", ref)
	if err != nil {
		return "", err
	}
	if !definitions.MatchString(name) {
		return "", Invalid("Invalid identifier: %.300q is no task definition.", ref)
	}
	return name, nil
}

// readName returns the name in a reference. An ARN must be of the kind and of the cluster, if one
// is given; an ARN of the old format names no cluster.
func (r References) readName(kind, clusterName, ref string) (string, error) {
	if !strings.HasPrefix(ref, "arn:") {
		return ref, nil
	}
	arn, err := r.ReadARN(ref)
	switch {
	case err != nil:
		return "", err
	case arn.Kind != kind:
		return "", Invalid("Invalid identifier: %.300s is not the ARN of a %s.", ref, kind)
	case clusterName != "" && arn.Cluster != "" && arn.Cluster != clusterName:
		return "", Invalid("Invalid identifier: Identifier is for %s. Your cluster is %s", arn.Cluster, clusterName)
	}
	return arn.Name, nil
}

// ReadARN takes an ARN of any kind apart. It must be of this partition, account and Region: Berth
// serves no others, and the same name there is something else.
func (r References) ReadARN(s string) (cluster.ResourceARN, error) {
	arn, ok := cluster.ParseARN(s)
	if !ok {
		return arn, Invalid("Invalid identifier: %.300q is no ARN of ECS.", s)
	}
	parts := strings.SplitN(s, ":", 6)
	here := strings.SplitN(r.Account.ARN("x", "x"), ":", 6)
	for n, what := range []string{1: "partition", 3: "region", 4: "account"} {
		if what != "" && parts[n] != here[n] {
			return arn, Invalid("Invalid identifier: Identifier is for %.64s. Your %s is %s", parts[n], what, here[n])
		}
	}
	return arn, nil
}

// IsName reports whether a name is one that clusters, services and instances can have.
func IsName(s string) bool { return names.MatchString(s) }

// attributeNames are the names of attributes of container instances (ECS API reference, Attribute).
var attributeNames = regexp.MustCompile(`^[a-zA-Z0-9_./\\-]{1,128}$`)

// IsAttributeName reports whether a name is one that attributes of container instances can have.
func IsAttributeName(s string) bool { return attributeNames.MatchString(s) }

// IsProviderName reports whether a name is one that capacity providers can have.
func IsProviderName(s string) bool { return providerNames.MatchString(s) }
