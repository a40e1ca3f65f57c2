package operation

import (
	"time"

	"berth/shared/cluster"
)

// CreateNodeGroup creates a node group from an Auto Scaling group, or one that Berth makes.
type CreateNodeGroup struct {
	Cluster          string
	Name             string
	AutoScalingGroup string
	// Machines and AMIType say what to make if there is no Auto Scaling group; Machines is nil if
	// there is one.
	Machines       *cluster.Machines
	AMIType        string
	Sizes          *cluster.Sizes // nil leaves the Auto Scaling group's
	Config         cluster.UpdateConfig
	Version        string
	ReleaseVersion string               // the AMI's name; empty: what the Auto Scaling group launches
	Template       *cluster.TemplateRef // the user's own
	Subnets        []string
	Role           string
	Labels         map[string]string
	Taints         []cluster.Taint
	Tags           map[string]string
	Token          string // clientRequestToken
	Params         string // digest of all parameters, see [cluster.Digest]
}

// UpdateNodeGroupConfig changes a node group's sizes, labels, taints and update configuration. What
// is nil stays.
type UpdateNodeGroupConfig struct {
	Cluster   string
	NodeGroup string
	Sizes     *cluster.SizesChange
	Labels    *cluster.LabelsChange
	Config    *cluster.UpdateConfig
	Token     string
	Params    string
}

// UpdateNodeGroupVersion replaces the nodes of a node group (N1).
type UpdateNodeGroupVersion struct {
	Cluster        string
	NodeGroup      string
	Version        string
	ReleaseVersion string
	Template       *cluster.TemplateRef
	Force          bool
	ForceProtected bool
	// DryRun returns the update without beginning it.
	DryRun bool
	Token  string
	Params string
}

// ListNodeGroups asks for a page of node groups sorted by name, or of one node group's updates in
// order of id.
type ListNodeGroups struct {
	Cluster   string
	NodeGroup string // of updates
	After     string
	Limit     int
}

// ClusterSummary is what EKS's API shows of a cluster.
type ClusterSummary struct {
	Name      string
	CreatedAt time.Time
}
