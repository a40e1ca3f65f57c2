package doctor

import (
	"encoding/json"
	"fmt"
	"time"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
)

// Facts is what was read of an installation. Maps are by logical id of the stack's resources unless
// they say otherwise.
type Facts struct {
	Stack Stack
	// Plan is what the stack should have.
	Plan *Plan
	// Now is AWS's time, ClockOffset AWS's clock minus this machine's.
	Now         time.Time
	ClockOffset time.Duration
	// Flags end each command of the AWS CLI, such as " --region eu-west-1".
	Flags string
	// JoinWithin is how long a new machine may take to register.
	JoinWithin time.Duration

	Functions map[string]Read[Function]
	Roles     map[string]Read[Role]
	Table     Read[Table]
	Mappings  map[string]Read[Mapping]
	Rules     map[string]Read[Rule]
	Schedules map[string]Read[Schedule]
	Queues    map[string]Read[Queue]
	Lambda    Read[LambdaLimits]
	Scaling   Read[ScalingLimits]
	Quotas    map[QuotaID]Read[Quota]
	VCPUs     Read[map[string]int] // by instance type, of those of the groups
	Clusters  Read[[]Cluster]
	Groups    map[string]Read[Group] // by name
}

// Stack is a CloudFormation stack.
type Stack struct {
	Name, ID, Status, Reason string
	Parameters, Outputs      map[string]string
	// Resources are the stack's resources by logical id.
	Resources map[string]Resource
}

// Resource is a resource of a stack. ID is the physical one.
type Resource struct{ Type, ID, Status, Reason string }

// Function is the configuration of a Lambda function.
type Function struct {
	State, StateReason, Update, UpdateReason, Role string
	Variables                                      map[string]string
	// VariablesErr says why the variables were not read, although the function was: its key is not the caller's.
	VariablesErr error
	// Reserved is its reserved concurrency, nil for none. The error says why it was not read.
	Reserved Read[*int]
}

// Role is what a role's policies allow. Boundary is the ARN of its permissions boundary, or "".
type Role struct {
	Policies []Policy
	// Managed are the ARNs of AWS's own policies that are attached. Their documents are in
	// Policies.
	Managed  []string
	Boundary string
}

// Policy is a policy document.
type Policy struct{ Statements []Statement }

// Statement is a statement of a policy.
type Statement struct {
	Sid       string          `json:",omitempty"`
	Effect    string          `json:",omitempty"`
	Action    Texts           `json:",omitempty"`
	NotAction Texts           `json:",omitempty"`
	Resource  Texts           `json:",omitempty"`
	Condition json.RawMessage `json:",omitempty"`
}

// Table is a DynamoDB table.
type Table struct {
	Status, StreamARN, StreamView string
	// TTL is the attribute by which rows expire, "" if that is off.
	TTL Read[string]
}

// Mapping is an event source mapping.
type Mapping struct{ ID, State, Reason, LastResult, Source, Function string }

// Rule is a rule of EventBridge. Targets are ARNs.
type Rule struct {
	Name, Bus, State string
	Targets          Read[[]string]
}

// Schedule is a schedule of EventBridge Scheduler. Target is the function's ARN; Settings is the
// whole target, and Window its flexible time window, in JSON.
type Schedule struct{ Name, State, Target, Expression, Settings, Window string }

// Queue is a queue with how many messages wait in it. OldestAge is nil if it is unknown.
type Queue struct {
	URL, ARN          string
	Visible, InFlight int
	OldestAge         *time.Duration
	// DeadLettersARN is where messages go that fail too often, "" for nowhere.
	DeadLettersARN string
}

// LambdaLimits are the account's limits of functions that run at a time. Unreserved is what no
// function has reserved.
type LambdaLimits struct{ Concurrent, Unreserved int }

// ScalingLimits are the account's limit of Auto Scaling groups, and how many there are.
type ScalingLimits struct{ Groups, MaxGroups int }

// QuotaID names a quota in Service Quotas.
type QuotaID struct{ Service, Code string }

// Quota is a quota of the account, and how much of it is used.
type Quota struct {
	Value float64
	Used  Read[float64]
}

// Cluster is a cluster that Berth manages.
type Cluster struct {
	Name string
	// Known are the instances that Berth knows, ECS what ECS itself has.
	Known    Read[[]*cluster.Instance]
	Services int // how many Berth has of it
	ECS      Read[ECSCluster]
	Capacity Read[*whatif.Capacity]
}

// ECSCluster is a cluster at ECS.
type ECSCluster struct {
	Status    string
	Instances []ECSInstance
}

// ECSInstance is a container instance at ECS.
type ECSInstance struct {
	ID, EC2, Status string
	AgentConnected  bool
	RegisteredAt    time.Time
}

// Group is an Auto Scaling group.
type Group struct {
	Name              string
	Tags              map[string]string
	Min, Max, Desired int
	Instances         []Member
	// Failure is the message of the newest activity if it has failed.
	Failure Read[string]
	// Template is the version of the launch template that the next machine is made of.
	Template Read[Template]
	// OnDemand and Spot are the instance types that it launches so.
	OnDemand, Spot []string
}

// Member is an instance of a group. LaunchedAt is zero if it is unknown.
type Member struct {
	ID, Lifecycle string
	LaunchedAt    time.Time
}

// Template is a version of a launch template.
type Template struct {
	Name, Version, UserData string
	// InstanceType is "" if the group names the types. Spot says that its machines are Spot
	// instances.
	InstanceType string
	Spot         bool
	// Profile is the name or ARN of the instance profile, "" for none; Roles are its roles.
	Profile string
	Roles   Read[[]InstanceRole]
}

// InstanceRole is a role of an instance profile.
type InstanceRole struct {
	Name string
	Role Read[Role]
}

// aws returns a command of the AWS CLI for this installation.
func (f *Facts) aws(format string, args ...any) string {
	return "aws " + fmt.Sprintf(format, args...) + f.Flags
}

// physical returns the physical id of a resource.
func (f *Facts) physical(id string) string { return f.Stack.Resources[id].ID }
