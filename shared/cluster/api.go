package cluster

import "time"

// ServiceSpec is what CreateService was given, names already reduced from ARNs. Pointers are nil where the caller said nothing.
type ServiceSpec struct {
	Cluster        string
	Name           string
	Strategy       SchedulingStrategy // REPLICA where empty
	TaskDefinition string             // family, family:revision or ARN
	Desired        *int
	MinHealthy     *int
	MaxPercent     *int
	Role           string
	Rules          Rules
	Network        *Network
	Tags           map[string]string
	PropagateTags  string
	Token          string // clientToken
	Params         string // digest of all parameters, see Digest
	CreatedBy      string // principal
}

// ServiceChange is what UpdateService was given.
type ServiceChange struct {
	Cluster        string
	Name           string
	Desired        *int
	MinHealthy     *int
	MaxPercent     *int
	TaskDefinition string // refused where it differs: deployments are not served yet
	Force          bool   // forceNewDeployment
	// Constraints and Strategies replace the whole list; nil leaves it.
	Constraints   *[]PlacementConstraint
	Strategies    *[]PlacementStrategy
	PropagateTags string
}

// ServiceDetail is a service with its newest events, for DescribeServices.
type ServiceDetail struct {
	*Service
	EventLog []*ServiceEvent // newest first
}

// ServiceQuery selects services of ListServices, in order of name.
type ServiceQuery struct {
	Cluster  string
	Strategy SchedulingStrategy // any where empty
	After    string             // name
	Limit    int
}

// TaskSpec is what RunTask or StartTask was given.
type TaskSpec struct {
	Kind           RequestKind
	Cluster        string
	TaskDefinition string
	Count          int
	Instances      []string // ids, of StartTask
	Group          string
	StartedBy      string
	Overrides      *Overrides
	Rules          Rules
	Network        *Network
	// Wait is the value of the tag berth:wait: a duration, or "forever"; empty fails what fits nowhere.
	Wait   string
	Tags   map[string]string
	Token  string
	Params string
}

// TaskQuery selects tasks of ListTasks, in order of key. Desired is RUNNING where empty.
type TaskQuery struct {
	Cluster   string
	Service   string
	Family    string
	Instance  string
	StartedBy string
	Desired   TaskStatus
	After     string // task id
	Limit     int
}

// Range is a part of one cluster's rows: From ≤ sort key < To, at most Limit of them (0: all).
type Range struct {
	Cluster  string
	From, To string
	Limit    int
}

// Prefix is the range of all rows whose sort key starts with prefix.
func Prefix(cluster, prefix string) Range {
	return Range{Cluster: cluster, From: prefix, To: prefix + "\xff"}
}

// DueBy is the range of rows due at t or earlier.
func DueBy(cluster string, t time.Time) Range {
	return Range{Cluster: cluster, From: PrefixDue, To: DueSort(t) + "\xff"}
}
