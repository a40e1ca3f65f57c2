package ecs

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/wire/awsjson"
)

// definition is one revision of a task definition, as stored. Def never changes but for its status.
type definition struct {
	Def  types.TaskDefinition
	Tags []types.Tag
}

// family is all revisions of one name. A number is never used again, even after its revision is
// deleted: tasks and the scheduler's cache know a revision by it.
type family struct {
	name      string
	latest    int
	revisions []*definition // in order
}

func (d *definition) name() string {
	return cluster.TaskDefinitionName(*d.Def.Family, int(d.Def.Revision))
}
func (d *definition) isActive() bool { return d.Def.Status == types.TaskDefinitionStatusActive }

// familyNames are the names of families (ECS API, RegisterTaskDefinition).
var familyNames = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,255}$`)

// newDefinition checks the input of RegisterTaskDefinition and completes it as ECS does: sizes in
// units, containers essential by default, the attributes that an instance must have. Revision and
// ARN are the caller's to give.
func (e *Definitions) newDefinition(in *ecs.RegisterTaskDefinitionInput, now time.Time) (*definition, error) {
	if !familyNames.MatchString(value(in.Family)) {
		return nil, clientError("Family contains invalid characters.")
	}
	if err := checkTags(in.Tags, nil); err != nil {
		return nil, err
	}
	cpu, err := taskCPU(value(in.Cpu), cluster.CodeClient)
	if err != nil {
		return nil, err
	}
	memory, err := taskMemory(value(in.Memory), cluster.CodeClient)
	if err != nil {
		return nil, err
	}
	containers, err := completeContainers(in, memory)
	if err != nil {
		return nil, err
	}
	if err := checkFargate(in); err != nil {
		return nil, err
	}
	if err := checkTaskMembers(in); err != nil {
		return nil, err
	}
	if err := checkDefinitionConstraints(in.PlacementConstraints); err != nil {
		return nil, err
	}
	d := &definition{Tags: in.Tags, Def: types.TaskDefinition{
		Family: in.Family, ContainerDefinitions: containers, Cpu: cpu, Memory: memory, NetworkMode: in.NetworkMode,
		TaskRoleArn: in.TaskRoleArn, ExecutionRoleArn: in.ExecutionRoleArn, Volumes: in.Volumes, PidMode: in.PidMode,
		IpcMode: in.IpcMode, PlacementConstraints: in.PlacementConstraints, ProxyConfiguration: in.ProxyConfiguration,
		RequiresCompatibilities: in.RequiresCompatibilities, RuntimePlatform: in.RuntimePlatform,
		EphemeralStorage: in.EphemeralStorage, EnableFaultInjection: in.EnableFaultInjection,
		//lint:ignore SA1019 clients can still send them, and they are kept
		InferenceAccelerators: in.InferenceAccelerators,
		Compatibilities:       compatibilities(in), Status: types.TaskDefinitionStatusActive, RegisteredAt: &now,
		RegisteredBy: new("arn:aws:iam::" + e.kernel.Account.ID + ":root"),
	}}
	if err := checkDefinitionSize(d.Def, in.ContainerDefinitions); err != nil {
		return nil, err
	}
	d.Def.RequiresAttributes = requiredAttributes(&d.Def)
	return d, nil
}

// maxDefinition is how many bytes a task definition may have (ECS service quotas).
const maxDefinition = 64 << 10

// checkDefinitionSize refuses a definition that is too long as JSON, with the containers as they
// were sent and without what ECS adds.
func checkDefinitionSize(d types.TaskDefinition, sent []types.ContainerDefinition) error {
	d.ContainerDefinitions, d.Compatibilities, d.RegisteredAt, d.RegisteredBy, d.Status = sent, nil, nil, nil, ""
	text, err := awsjson.EncodeOutput("RegisterTaskDefinition", &ecs.DescribeTaskDefinitionOutput{TaskDefinition: &d})
	if err == nil && len(text) > maxDefinition {
		return clientError("Actual length: '%d'. Max allowed length is '%d' bytes.", len(text), maxDefinition)
	}
	return err
}

// checkFargate refuses what ECS refuses of a definition for Fargate. Tasks on Fargate do not run
// here, so that is not everything.
func checkFargate(in *ecs.RegisterTaskDefinitionInput) error {
	switch {
	case !requiresFargate(in):
		return nil
	case in.NetworkMode != types.NetworkModeAwsvpc:
		return clientError("Fargate only supports network mode ‘awsvpc’.")
	case value(in.Cpu) == "":
		return clientError("Fargate requires that 'cpu' be defined at the task level.")
	case value(in.Memory) == "":
		return clientError("Fargate requires that 'memory' be defined at the task level.")
	case in.PidMode == types.PidModeHost:
		return clientError("Tasks using the Fargate launch type do not support pidMode 'host'. The supported " +
			"value for pidMode is 'task'.")
	}
	return nil
}

// The sizes that ephemeral storage can have, in GiB (ECS API, EphemeralStorage).
const minEphemeral, maxEphemeral = 21, 200

// checkTaskMembers refuses what ECS refuses of members that the containers share.
func checkTaskMembers(in *ecs.RegisterTaskDefinitionInput) error {
	if s := in.EphemeralStorage; s != nil && s.SizeInGiB < minEphemeral {
		return clientError("EphemeralStorage size should be at least %d", minEphemeral)
	} else if s != nil && s.SizeInGiB > maxEphemeral {
		return clientError("EphemeralStorage size should be at most %d", maxEphemeral)
	}
	if in.ProxyConfiguration != nil && in.NetworkMode != types.NetworkModeAwsvpc {
		return clientError("APPMESH proxy configuration is only supported in networkMode=awsvpc")
	}
	return nil
}

// checkDefinitionConstraints refuses constraints that no instance could be compared with.
func checkDefinitionConstraints(constraints []types.TaskDefinitionPlacementConstraint) error {
	for _, c := range constraints {
		if c.Type != types.TaskDefinitionPlacementConstraintTypeMemberOf {
			return clientError("constraint.type '%.40s' is not supported.", c.Type)
		}
		if value(c.Expression) == "" {
			return clientError("A placement constraint of type memberOf must have an expression.")
		}
		if _, err := constraint.ParseQuery(*c.Expression); err != nil {
			return clientError("Placement constraint expression is not valid: %s", err)
		}
	}
	return nil
}

// clientError is how ECS refuses a task definition.
func clientError(format string, args ...any) error {
	return cluster.Errorf(cluster.CodeClient, format, args...)
}

// requiresFargate reports whether the definition must be valid for Fargate.
func requiresFargate(in *ecs.RegisterTaskDefinitionInput) bool {
	return slices.Contains(in.RequiresCompatibilities, types.CompatibilityFargate)
}

// compatibilities returns the launch types that the definition is valid for. External instances
// have no network interfaces to give to tasks in awsvpc mode, and only a definition that requires
// Fargate is checked for it.
func compatibilities(in *ecs.RegisterTaskDefinitionInput) (out []types.Compatibility) {
	if in.NetworkMode != types.NetworkModeAwsvpc {
		out = append(out, types.CompatibilityExternal)
	}
	out = append(out, types.CompatibilityEc2)
	if requiresFargate(in) {
		out = append(out, types.CompatibilityFargate)
	}
	return out
}

// staticHostPort returns the static host port of a mapping. It reports false for a dynamic port,
// and in network modes that give the task a network namespace of its own:
//
//	mode     containerPort  hostPort  static host port
//	bridge   80             8080      8080
//	bridge   80             0         none, Docker chooses one
//	host     80             0         80
//	awsvpc   80             80        none, the task has an address of its own
func staticHostPort(m types.PortMapping, mode types.NetworkMode) (cluster.Port, bool) {
	p := cluster.Port{Number: int(value(m.HostPort)), Protocol: cluster.Protocol(m.Protocol)}
	if mode == types.NetworkModeHost {
		p.Number = int(value(m.ContainerPort))
	}
	if p.Protocol == "" {
		p.Protocol = cluster.TCP
	}
	return p, p.Number != 0 && mode != types.NetworkModeAwsvpc && mode != types.NetworkModeNone
}

// taskCPU returns a task's CPU in units, as ECS stores it, from units ("512") or vCPUs ("0.5
// vCPU"). refusal is the code of the error.
func taskCPU(s string, refusal cluster.Code) (*string, error) {
	return parseTaskSize(s, "vcpu", "cpu", refusal)
}

// taskMemory returns a task's memory in MiB from MiB ("512") or GB ("1 GB").
func taskMemory(s string, refusal cluster.Code) (*string, error) {
	return parseTaskSize(s, "gb", "memory", refusal)
}

// parseTaskSize reads a number, of 1024 units each if the suffix follows it. Example: "0.5 vCPU" is
// 512. An absent size is nil; one that is not a whole number of units is an error.
func parseTaskSize(s, suffix, field string, refusal cluster.Code) (*string, error) {
	if s == "" {
		return nil, nil
	}
	number, scaled := strings.CutSuffix(strings.ToLower(strings.TrimSpace(s)), suffix)
	factor := 1.0
	if scaled {
		factor = 1024
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	n *= factor
	if err != nil || n < 1 || n > math.MaxInt32 || n != math.Trunc(n) {
		return nil, cluster.Errorf(refusal, "Invalid '%s' setting for task.", field)
	}
	return new(strconv.FormatInt(int64(n), 10)), nil
}

// requiredAttributes returns the capabilities that ECS derives from a task definition and in which
// simulated agents differ (ECS, requiresAttributes). StartTask fails on an instance that
// lacks one with the reason ATTRIBUTE. Example: a container that logs to splunk requires
// com.amazonaws.ecs.capability.logging-driver.splunk.
func requiredAttributes(d *types.TaskDefinition) []types.Attribute {
	names := map[string]bool{"com.amazonaws.ecs.capability.docker-remote-api.1.18": true}
	if value(d.TaskRoleArn) != "" {
		names["com.amazonaws.ecs.capability.task-iam-role"] = true
	}
	if d.NetworkMode == types.NetworkModeAwsvpc {
		names["ecs.capability.task-eni"] = true
	}
	for _, v := range d.Volumes {
		if value(v.ConfiguredAtLaunch) {
			names[volumeCapability] = true
		}
	}
	for _, c := range d.ContainerDefinitions {
		if c.LogConfiguration != nil {
			names["com.amazonaws.ecs.capability.logging-driver."+string(c.LogConfiguration.LogDriver)] = true
		}
		if value(c.Privileged) {
			names["com.amazonaws.ecs.capability.privileged-container"] = true
		}
		if c.HealthCheck != nil {
			names["ecs.capability.container-health-check"] = true
		}
	}
	out := make([]types.Attribute, 0, len(names))
	for name := range names {
		out = append(out, types.Attribute{Name: new(name)})
	}
	slices.SortFunc(out, func(a, b types.Attribute) int { return cmp.Compare(*a.Name, *b.Name) })
	return out
}

// healthCheck returns the check of the first essential container that has one, or nil.
func (d *definition) healthCheck() *types.HealthCheck {
	for _, c := range d.Def.ContainerDefinitions {
		if value(c.Essential) && c.HealthCheck != nil {
			return c.HealthCheck
		}
	}
	return nil
}

// stopTimeout is how long the agent waits between SIGTERM and SIGKILL: the longest of the
// containers', each 30 s unless its definition says otherwise (the agent's default).
func (d *definition) stopTimeout() time.Duration {
	longest := time.Duration(0)
	for _, c := range d.Def.ContainerDefinitions {
		timeout := 30 * time.Second
		if c.StopTimeout != nil {
			timeout = time.Duration(*c.StopTimeout) * time.Second
		}
		longest = max(longest, timeout)
	}
	return longest
}
