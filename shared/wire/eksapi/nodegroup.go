package eksapi

import (
	"context"
	"encoding/json"
	"regexp"
	"strconv"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
)

// NodeGroups is what the operations ask of Berth. Names are plain, never ARNs. Errors of the API
// are [cluster.Error]: an unknown cluster is a ClusterNotFoundException, an unknown node group or
// update a ResourceNotFoundException.
type NodeGroups interface {
	// CreateNodeGroup returns the node group as CREATING; whether its Auto Scaling group is
	// suitable shows within minutes.
	CreateNodeGroup(ctx context.Context, spec operation.CreateNodeGroup) (*cluster.NodeGroup, error)
	DescribeNodeGroup(ctx context.Context, clusterName, name string) (*cluster.NodeGroup, error)
	// ListNodeGroups returns a page of names; more reports whether there is another page.
	ListNodeGroups(ctx context.Context, q operation.ListNodeGroups) (names []string, more bool, err error)
	// UpdateNodeGroupConfig and UpdateNodeGroupVersion return the update that they begin.
	UpdateNodeGroupConfig(ctx context.Context, change operation.UpdateNodeGroupConfig) (*cluster.Update, error)
	UpdateNodeGroupVersion(ctx context.Context, change operation.UpdateNodeGroupVersion) (*cluster.Update, error)
	// DeleteNodeGroup returns the node group as DELETING.
	DeleteNodeGroup(ctx context.Context, clusterName, name string) (*cluster.NodeGroup, error)
	DescribeUpdate(ctx context.Context, clusterName, nodeGroup, id string) (*cluster.Update, error)
	// ListNodeGroupUpdates returns a page of ids; more reports whether there is another page.
	ListNodeGroupUpdates(ctx context.Context, q operation.ListNodeGroups) (ids []string, more bool, err error)
	// TagNodeGroup sets tags and removes others in one change.
	TagNodeGroup(ctx context.Context, of cluster.NodeGroupRef, set map[string]string, remove []string) error
	// ManagedClusters returns the names of the clusters that Berth manages.
	ManagedClusters(ctx context.Context) ([]string, error)
	DescribeCluster(ctx context.Context, name string) (*operation.ClusterSummary, error)
}

// A server implements the operations: it turns EKS's shapes into Berth's nouns and back.
type server struct {
	account cluster.Account
	groups  NodeGroups
}

var (
	// nodeGroupNames: up to 63 characters, beginning with a letter or digit (EKS user guide).
	nodeGroupNames = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,62}$`)
	// What the value of an attribute of a container instance consists of (ECS API reference,
	// Attribute).
	attributeValues = regexp.MustCompile(`^[a-zA-Z0-9_./\\@:-]([a-zA-Z0-9_./\\@: -]*[a-zA-Z0-9_./\\@:-])?$`)

	updateIDs      = regexp.MustCompile(`^[0-9a-fA-F-]{36}$`)
	subnetIDs      = regexp.MustCompile(`^subnet-[0-9a-z-]{1,64}$`)
	templateIDs    = regexp.MustCompile(`^lt-[0-9a-z]{1,64}$`)
	templateNames  = regexp.MustCompile(`^[a-zA-Z0-9()./_-]{3,128}$`)
	templateSerial = regexp.MustCompile(`^([1-9][0-9]{0,17}|\$Latest|\$Default)$`)
	groupNames     = regexp.MustCompile(`^[ -9;-~]{1,255}$`) // of Auto Scaling: printable, without a colon
)

// createInput is the input of CreateNodegroup, with the members that are refused too.
type createInput struct {
	NodegroupName      string            `json:"nodegroupName"`
	ScalingConfig      *scalingConfig    `json:"scalingConfig"`
	DiskSize           *int              `json:"diskSize"`
	Subnets            []string          `json:"subnets"`
	InstanceTypes      []string          `json:"instanceTypes"`
	AmiType            string            `json:"amiType"`
	RemoteAccess       json.RawMessage   `json:"remoteAccess"`
	NodeRole           string            `json:"nodeRole"`
	Labels             map[string]string `json:"labels"`
	Taints             []taint           `json:"taints"`
	Tags               map[string]string `json:"tags"`
	ClientRequestToken string            `json:"clientRequestToken"`
	LaunchTemplate     *launchTemplate   `json:"launchTemplate"`
	UpdateConfig       *updateConfig     `json:"updateConfig"`
	NodeRepairConfig   json.RawMessage   `json:"nodeRepairConfig"`
	CapacityType       string            `json:"capacityType"`
	Version            string            `json:"version"`
	ReleaseVersion     string            `json:"releaseVersion"`
	WarmPoolConfig     json.RawMessage   `json:"warmPoolConfig"`
}

// checkUnserved refuses what Berth serves for no node group.
func (in *createInput) checkUnserved() error {
	for _, m := range []struct {
		name  string
		given bool
	}{
		{"remoteAccess", isPresent(in.RemoteAccess)},
		{"nodeRepairConfig", isPresent(in.NodeRepairConfig)},
		{"warmPoolConfig", isPresent(in.WarmPoolConfig)},
	} {
		if m.given {
			return unsupported("CreateNodegroup", m.name)
		}
	}
	return nil
}

// checkGiven refuses, for an Auto Scaling group of the user's, what the group and its launch
// template say. The AMI type CUSTOM is the truth, so it passes.
func (in *createInput) checkGiven() error {
	for _, m := range []struct {
		name  string
		given bool
	}{
		{"diskSize", in.DiskSize != nil}, {"instanceTypes", len(in.InstanceTypes) > 0},
		{"capacityType", in.CapacityType != ""}, {"amiType", in.AmiType != "" && in.AmiType != "CUSTOM"},
	} {
		if m.given {
			return input.Invalid("%s is not supported with the tag %s: %s.", m.name, cluster.AutoScalingTag, groupSays)
		}
	}
	return nil
}

// isPresent reports whether a member was given with a value; null counts as not given.
func isPresent(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// nodegroupOutput answers the operations on one node group.
type nodegroupOutput struct {
	Nodegroup *nodegroup `json:"nodegroup"`
}

// updateOutput answers the operations on one update.
type updateOutput struct {
	Update *update `json:"update"`
}

// listNodegroupsOutput is a page of names of node groups.
type listNodegroupsOutput struct {
	Nodegroups []string `json:"nodegroups"`
	NextToken  *string  `json:"nextToken,omitempty"`
}

// listUpdatesOutput is a page of ids of updates.
type listUpdatesOutput struct {
	UpdateIDs []string `json:"updateIds"`
	NextToken *string  `json:"nextToken,omitempty"`
}

// checkNames checks the names of a cluster and a node group.
func checkNames(clusterName, nodeGroup string) error {
	if err := checkClusterName(clusterName); err != nil {
		return err
	}
	if !nodeGroupNames.MatchString(nodeGroup) {
		return input.Invalid("The node group name %.300q has more than 63 characters, or others than letters, "+
			"digits, hyphens and underscores.", nodeGroup)
	}
	return nil
}

// checkClusterName checks the name of a cluster, which the path always has.
func checkClusterName(name string) error {
	if !input.IsName(name) {
		return input.Invalid("The cluster name %.300q is no name of a cluster.", name)
	}
	return nil
}

// checkNames checks the names in a request's path and query. The node group may be missing, in
// lists.
func (c *call) checkNames() error {
	if c.nodeGroup == "" {
		return checkClusterName(c.cluster)
	}
	return checkNames(c.cluster, c.nodeGroup)
}

// createNodegroup creates a node group of the Auto Scaling group that the tag
// [cluster.AutoScalingTag] names: CreateNodegroup has no member for an existing group. Without the
// tag Berth makes the group, as EKS does.
func (e *server) createNodegroup(ctx context.Context, c *call) (any, error) {
	var in createInput
	if err := awsjson.DecodeInput(c.body, &in); err != nil {
		return nil, err
	}
	c.nodeGroup = in.NodegroupName
	if err := checkNames(c.cluster, c.nodeGroup); err != nil {
		return nil, err
	}
	spec, err := in.parseCreate(c)
	if err != nil {
		return nil, err
	}
	g, err := e.groups.CreateNodeGroup(ctx, *spec)
	if err != nil {
		return nil, err
	}
	return nodegroupOutput{nodegroupShape(e.account, g)}, nil
}

// parseCreate checks the input and returns it as the scheduler takes it. Subnets and role are
// required, as with EKS. An Auto Scaling group of the user's already has both; then they only
// appear in descriptions. Sizes are given completely or not at all.
func (in *createInput) parseCreate(c *call) (*operation.CreateNodeGroup, error) {
	if err := in.checkUnserved(); err != nil {
		return nil, err
	}
	if err := in.checkPlace(); err != nil {
		return nil, err
	}
	if err := checkVersions(in.Version, in.ReleaseVersion); err != nil {
		return nil, err
	}
	if err := input.CheckLength("clientRequestToken", in.ClientRequestToken, maxText); err != nil {
		return nil, err
	}
	if err := checkLabels(in.Labels); err != nil {
		return nil, err
	}
	if err := checkTags(in.Tags); err != nil {
		return nil, err
	}
	taints, err := parseTaints("taints", in.Taints)
	if err != nil {
		return nil, err
	}
	spec := &operation.CreateNodeGroup{
		Cluster: c.cluster, Name: in.NodegroupName, AutoScalingGroup: in.Tags[cluster.AutoScalingTag],
		Version: in.Version, ReleaseVersion: in.ReleaseVersion, Subnets: in.Subnets, Role: in.NodeRole,
		Labels: in.Labels, Taints: taints, Tags: in.Tags, Token: in.ClientRequestToken,
	}
	if spec.Config, err = in.UpdateConfig.parseUpdateConfig(); err != nil {
		return nil, err
	}
	if spec.Template, err = in.LaunchTemplate.parseTemplateRef(); err != nil {
		return nil, err
	}
	if err := in.parseMachines(spec); err != nil {
		return nil, err
	}
	if s := in.ScalingConfig; s != nil {
		if s.MinSize == nil || s.MaxSize == nil || s.DesiredSize == nil {
			return nil, input.Invalid("scalingConfig must have minSize, maxSize and desiredSize.")
		}
		spec.Sizes = &cluster.Sizes{Min: *s.MinSize, Max: *s.MaxSize, Desired: *s.DesiredSize}
	}
	plain := *in
	plain.ClientRequestToken = ""
	spec.Params, err = input.DigestParameters(plain)
	return spec, err
}

// Bounds of what EKS documents no bound for, in characters and items.
const (
	// maxText is for versions and tokens: an image's name has 128 characters, a token of an SDK 36.
	maxText = 255
	// maxRole is how long the ARN of a role can be (IAM API reference, arnType).
	maxRole = 2048
	// maxSubnets is how many ids of subnets an Auto Scaling group has room for, in the 5000
	// characters of its VPCZoneIdentifier.
	maxSubnets = 200
)

// checkPlace checks where the nodes are and who they are: their subnets and their role.
func (in *createInput) checkPlace() error {
	switch {
	case len(in.Subnets) == 0:
		return input.Invalid("subnets must not be empty.")
	case len(in.Subnets) > maxSubnets:
		return input.Invalid("There are %d subnets, but at most %d are possible.", len(in.Subnets), maxSubnets)
	case in.NodeRole == "":
		return input.Invalid("nodeRole must not be empty.")
	}
	for _, subnet := range in.Subnets {
		if !subnetIDs.MatchString(subnet) {
			return input.Invalid("%.100q is no id of a subnet.", subnet)
		}
	}
	return input.CheckLength("nodeRole", in.NodeRole, maxRole)
}

// checkVersions checks the lengths of a node group's version and release.
func checkVersions(version, release string) error {
	if err := input.CheckLength("version", version, maxText); err != nil {
		return err
	}
	return input.CheckLength("releaseVersion", release, maxText)
}

// parseUpdateConfig reads an update configuration, the zero value for none. Which combinations are
// possible is checked with the group's own (N1).
func (u *updateConfig) parseUpdateConfig() (out cluster.UpdateConfig, err error) {
	if u == nil {
		return out, nil
	}
	for _, v := range []*int{u.MaxUnavailable, u.MaxUnavailablePercentage} {
		if v != nil && *v < 1 {
			return out, input.Invalid("maxUnavailable and maxUnavailablePercentage must be at least 1.")
		}
	}
	return cluster.UpdateConfig{
		MaxUnavailable:           input.Value(u.MaxUnavailable),
		MaxUnavailablePercentage: input.Value(u.MaxUnavailablePercentage),
		Strategy:                 cluster.UpdateStrategy(input.Value(u.UpdateStrategy)),
	}, nil
}

// parseTemplateRef reads a reference to a launch template, nil for none: an id or a name, and a
// version, $Latest or $Default.
func (t *launchTemplate) parseTemplateRef() (*cluster.TemplateRef, error) {
	switch {
	case t == nil:
		return nil, nil
	case (t.ID == "") == (t.Name == ""):
		return nil, input.Invalid("launchTemplate must have either an id or a name.")
	case t.ID != "" && !templateIDs.MatchString(t.ID):
		return nil, input.Invalid("%.100q is no id of a launch template.", t.ID)
	case t.Name != "" && !templateNames.MatchString(t.Name):
		return nil, input.Invalid("%.200q is no name of a launch template.", t.Name)
	case t.Version != "" && !templateSerial.MatchString(t.Version):
		return nil, input.Invalid("%.100q is no version of a launch template.", t.Version)
	}
	return &cluster.TemplateRef{ID: t.ID, Name: t.Name, Version: t.Version}, nil
}

func (e *server) describeNodegroup(ctx context.Context, c *call) (any, error) {
	return e.onNodegroup(ctx, c, e.groups.DescribeNodeGroup)
}

func (e *server) deleteNodegroup(ctx context.Context, c *call) (any, error) {
	return e.onNodegroup(ctx, c, e.groups.DeleteNodeGroup)
}

// onNodegroup answers an operation that takes the names of a node group and returns it.
func (e *server) onNodegroup(
	ctx context.Context, c *call, do func(ctx context.Context, clusterName, name string) (*cluster.NodeGroup, error),
) (any, error) {
	if err := checkNames(c.cluster, c.nodeGroup); err != nil {
		return nil, err
	}
	g, err := do(ctx, c.cluster, c.nodeGroup)
	if err != nil {
		return nil, err
	}
	return nodegroupOutput{nodegroupShape(e.account, g)}, nil
}

// readPage returns one page of a list and the token that continues it, nil on the last page. list
// names the list; a token is good for no other.
func (c *call) readPage(
	ctx context.Context, list string, read func(context.Context, operation.ListNodeGroups) ([]string, bool, error),
) ([]string, *string, error) {
	q := operation.ListNodeGroups{Cluster: c.cluster, NodeGroup: c.nodeGroup}
	var err error
	if q.Limit, err = c.pageSize(); err != nil {
		return nil, nil, err
	}
	list += " of " + c.cluster + "/" + c.nodeGroup
	if q.After, err = input.PageStart(list, c.query.Get("nextToken")); err != nil {
		return nil, nil, err
	}
	found, more, err := read(ctx, q)
	if err != nil || !more {
		return orEmpty(found), nil, err
	}
	return found, new(input.PageToken(list, found[len(found)-1])), nil
}

// listNodegroups lists the node groups of the cluster in the path. A node group in the query means
// nothing there.
func (e *server) listNodegroups(ctx context.Context, c *call) (any, error) {
	c.nodeGroup = ""
	if err := checkClusterName(c.cluster); err != nil {
		return nil, err
	}
	found, next, err := c.readPage(ctx, "node groups", e.groups.ListNodeGroups)
	if err != nil {
		return nil, err
	}
	return listNodegroupsOutput{found, next}, nil
}

// pageSize returns how many items the page is to have: 1 to 100, or 100 if the query does not say.
func (c *call) pageSize() (int, error) {
	given := c.query.Get("maxResults")
	if given == "" {
		return maxPage, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 || n > maxPage {
		return 0, input.Invalid("maxResults is %.20s, but must be between 1 and %d.", given, maxPage)
	}
	return n, nil
}
