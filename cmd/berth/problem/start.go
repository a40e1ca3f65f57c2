package problem

import (
	"fmt"
	"regexp"
	"strings"
)

// startFailure is one way in which tasks fail before they run, told by ECS's reason.
type startFailure struct {
	is    func(reason string) bool
	cause string // empty if the reason says it all
	// what and query show the part of the task definition that is concerned; more are further commands.
	what, query string
	more        func(f *finder, definition, reason string) []Help
}

// startFailures are tried in this order: what a reason says of secrets or logs is more than that the
// execution role is concerned.
var startFailures = []startFailure{
	{hasAll("log group"), "The log group that a container's logConfiguration names does not exist. The agent " +
		"creates it only with the option awslogs-create-group.",
		"See the log groups that it names", "containerDefinitions[].[name,logConfiguration.options]", createLogGroups},
	{hasAny("logger args", "logging driver", "log stream"), "The log driver refuses its options, or does not " +
		"reach its service; with awslogs the instance's role, or the execution role, needs logs:CreateLogStream.",
		"Check the log options that it names", "executionRoleArn,containerDefinitions[].[name,logConfiguration]", nil},
	{hasAny("EFS", ".efs.", "mount.nfs"), "The instance cannot mount the EFS file system: it needs a mount target in " +
		"its zone whose security group lets it connect to port 2049, and with IAM a task role that may mount it.",
		"Check the volumes that it names", "taskRoleArn,volumes", findMountTargets},
	{hasAny("CannotCreateVolume", "CannotGetVolume", "VolumeDriver", "failed to mount", "mounting volume"),
		"Docker or its volume plugin on the instance cannot create or mount a volume.",
		"Check the volumes that it names", "volumes,containerDefinitions[].[name,mountPoints]", nil},
	{hasSecret("AccessDenied", "not authorized"), "The execution role may not read the secret or parameter, or not " +
		"decrypt it with its key.", whatSecrets, querySecrets, findSecrets},
	{hasSecret("ResourceNotFound", "can't find", "invalid parameters", "ParameterNotFound"),
		"The secret or parameter does not exist in this Region.", whatSecrets, querySecrets, findSecrets},
	{hasSecret("timeout", "timed out", "deadline", "connection"), "The instance does not reach Secrets Manager or " +
		"Systems Manager: it needs a way to the internet, or VPC endpoints of both.", whatSecrets, querySecrets, nil},
	{hasSecret(""), "", whatSecrets, querySecrets, findSecrets},
	{hasAny("TaskDefinition is inactive", "TaskDefinition not found"), "The task definition was deregistered " +
		"or deleted directly at ECS, which starts no more tasks of it. Register it again, and update the service to " +
		"the new revision. Deregister through Berth: services then keep using the revision.",
		"See its status", "status", nil},
	{hasAny("CannotPull"), "", "Check the name of its image", queryAll, nil},
	{hasAny("ResourceInitialization", "role"), "", "Check its execution role", queryAll, nil},
	{hasAny("OutOfMemory"), "", "Check its memory", queryAll, nil},
	{hasAll(), "", "See its images, roles and memory", queryAll, nil},
}

const (
	queryAll     = "executionRoleArn,taskRoleArn,containerDefinitions[].[name,image,memory]"
	whatSecrets  = "Check the secrets that it names, and that its execution role may read them"
	querySecrets = "executionRoleArn,containerDefinitions[].[name,secrets,logConfiguration.secretOptions]"
)

func hasAny(parts ...string) func(string) bool {
	return func(reason string) bool {
		for _, p := range parts {
			if strings.Contains(reason, p) {
				return true
			}
		}
		return false
	}
}

func hasAll(parts ...string) func(string) bool {
	return func(reason string) bool {
		for _, p := range parts {
			if !strings.Contains(reason, p) {
				return false
			}
		}
		return true
	}
}

// hasSecret is for reasons about a secret or parameter that have one of the parts.
func hasSecret(parts ...string) func(string) bool {
	about, part := hasAny("secret", "ssm", "SSM"), hasAny(parts...)
	return func(reason string) bool { return about(reason) && part(reason) }
}

func startFailureOf(reason string) *startFailure {
	for n := range startFailures {
		if startFailures[n].is(reason) {
			return &startFailures[n]
		}
	}
	return nil // never: the last one is any
}

// describeReason returns ECS's reason as a sentence, with its cause where that is known.
func describeReason(reason string) string {
	return strings.TrimSpace(sentence(reason) + " " + startFailureOf(reason).cause)
}

// startHelp returns what shows why a task definition does not start, and what may mend it.
func (f serviceFinder) startHelp(definition, reason string) []Help {
	failure := startFailureOf(reason)
	help := []Help{{failure.what, describeDefinition(f.finder, definition) +
		" --query 'taskDefinition.[" + failure.query + "]'"}}
	if failure.more != nil {
		help = append(help, failure.more(f.finder, definition, reason)...)
	}
	return help
}

func describeDefinition(f *finder, definition string) string {
	return f.api("ecs describe-task-definition --task-definition " + definition)
}

// createLogGroups returns a command that creates the log groups that the containers name.
func createLogGroups(f *finder, definition, _ string) []Help {
	return []Help{{"Create those that do not exist", fmt.Sprintf(
		`for group in $(%s --query 'taskDefinition.containerDefinitions[].logConfiguration.options."awslogs-group"' `+
			`--output text); do %s; done`, describeDefinition(f, definition),
		f.other(`logs create-log-group --log-group-name "$group"`))}}
}

var (
	fileSystems = regexp.MustCompile(`\bfs-[0-9a-f]{8,17}\b`)
	secretARNs  = regexp.MustCompile(`\barn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[\w/+=.@-]+`)
	parameters  = regexp.MustCompile(`\barn:aws[a-z-]*:ssm:[a-z0-9-]+:\d{12}:parameter(/[\w/.-]+)|` +
		`invalid parameters: *([\w/.-]+)`)
)

// findMountTargets returns a command that shows the mount targets of the file system that a reason names.
func findMountTargets(f *finder, _, reason string) []Help {
	id := fileSystems.FindString(reason)
	if id == "" {
		return nil
	}
	return []Help{{"See in which zones the file system has mount targets", f.other("efs describe-mount-targets "+
		"--file-system-id %s --query 'MountTargets[].[AvailabilityZoneName,LifeCycleState,IpAddress]'", id)}}
}

// findSecrets returns commands that show the secret or parameter that a reason names, and whether the
// execution role may read it.
func findSecrets(f *finder, definition, reason string) []Help {
	if arn := strings.TrimRight(secretARNs.FindString(reason), "."); arn != "" {
		return []Help{{"See whether the secret exists", f.other("secretsmanager describe-secret --secret-id %s",
			QuoteArgument(arn))},
			{"See whether the execution role may read it", f.other("iam simulate-principal-policy --action-names "+
				"secretsmanager:GetSecretValue --resource-arns %s --policy-source-arn \"$(%s --query "+
				"taskDefinition.executionRoleArn --output text)\" --query 'EvaluationResults[].EvalDecision'",
				QuoteArgument(arn), describeDefinition(f, definition))}}
	}
	found := parameters.FindStringSubmatch(reason)
	if found == nil {
		return nil
	}
	name := strings.TrimRight(found[1]+found[2], ".")
	return []Help{{"See whether the parameter exists", f.other("ssm get-parameters --names %s "+
		"--query '[Parameters[].Name,InvalidParameters]'", QuoteArgument(name))}}
}
