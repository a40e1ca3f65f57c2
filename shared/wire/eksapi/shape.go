package eksapi

import (
	"cmp"
	"strconv"
	"time"

	"berth/shared/cluster"
	"berth/shared/wire/shape"
)

// scalingConfig has the sizes of a node group. All are given when it is created, any of them when
// it is changed.
type scalingConfig struct {
	MinSize     *int `json:"minSize,omitempty"`
	MaxSize     *int `json:"maxSize,omitempty"`
	DesiredSize *int `json:"desiredSize,omitempty"`
}

// updateConfig says how many nodes an upgrade may take out of service at a time (N1): a number or a
// percentage.
type updateConfig struct {
	MaxUnavailable           *int    `json:"maxUnavailable,omitempty"`
	MaxUnavailablePercentage *int    `json:"maxUnavailablePercentage,omitempty"`
	UpdateStrategy           *string `json:"updateStrategy,omitempty"`
}

// launchTemplate names a launch template of the user's own and its version.
type launchTemplate struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	ID      string `json:"id,omitempty"`
}

type autoScalingGroup struct {
	Name string `json:"name"`
}

type resources struct {
	AutoScalingGroups []autoScalingGroup `json:"autoScalingGroups"`
}

// An issue is why a node group is CREATE_FAILED or degraded.
type issue struct {
	Code        string   `json:"code"`
	Message     string   `json:"message"`
	ResourceIDs []string `json:"resourceIds"`
}

type health struct {
	Issues []issue `json:"issues"`
}

// A machine says what the instances of a node group are made of.
type machine struct {
	CapacityType  string   `json:"capacityType"`
	InstanceTypes []string `json:"instanceTypes"`
	AmiType       string   `json:"amiType,omitempty"` // absent until a template says whether it names an image
	DiskSize      *int     `json:"diskSize,omitempty"`
}

// A nodegroup is a node group as the API shows it. Unlike in ECS's API, lists are always there, if
// only empty.
type nodegroup struct {
	machine
	NodegroupName  string            `json:"nodegroupName"`
	NodegroupArn   string            `json:"nodegroupArn"`
	ClusterName    string            `json:"clusterName"`
	Version        string            `json:"version"`
	ReleaseVersion string            `json:"releaseVersion"`
	CreatedAt      epochSeconds      `json:"createdAt"`
	ModifiedAt     epochSeconds      `json:"modifiedAt"`
	Status         string            `json:"status"`
	ScalingConfig  scalingConfig     `json:"scalingConfig"`
	Subnets        []string          `json:"subnets"`
	NodeRole       string            `json:"nodeRole"`
	Labels         map[string]string `json:"labels"`
	Taints         []taint           `json:"taints,omitempty"`
	Resources      resources         `json:"resources"`
	Health         health            `json:"health"`
	UpdateConfig   updateConfig      `json:"updateConfig"`
	LaunchTemplate *launchTemplate   `json:"launchTemplate,omitempty"`
	Tags           map[string]string `json:"tags"`
}

// A param is one parameter of an update, by EKS's name.
type param struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// An errorDetail is why an update failed (N6).
type errorDetail struct {
	ErrorCode    string   `json:"errorCode"`
	ErrorMessage string   `json:"errorMessage"`
	ResourceIDs  []string `json:"resourceIds"`
}

// An update is an update of a node group as the API shows it.
type update struct {
	ID        string        `json:"id"`
	Status    string        `json:"status"`
	Type      string        `json:"type"`
	Params    []param       `json:"params"`
	CreatedAt epochSeconds  `json:"createdAt"`
	Errors    []errorDetail `json:"errors"`
}

// epochSeconds is a time as AWS's JSON protocols write it: seconds since 1970 with a fraction.
type epochSeconds time.Time

// MarshalJSON writes the time to the millisecond.
func (t epochSeconds) MarshalJSON() ([]byte, error) {
	return []byte(strconv.FormatFloat(float64(time.Time(t).UnixMilli())/1000, 'f', -1, 64)), nil
}

// defaultDiskSize is the diskSize, in GiB, that EKS shows of a node group without a launch
// template.
const defaultDiskSize = 20

// nodegroupShape returns a node group as the API shows it. If the user has made its Auto Scaling
// group, the AMI type is CUSTOM, because the launch template names the image; as with EKS the image
// is then the release version. The capacity type and the disk size are EKS's defaults: the Auto
// Scaling group and its launch template decide.
func nodegroupShape(account cluster.Account, g *cluster.NodeGroup) *nodegroup {
	out := &nodegroup{
		machine:       machine{CapacityType: "ON_DEMAND", InstanceTypes: []string{}, AmiType: "CUSTOM"},
		NodegroupName: g.Name, NodegroupArn: account.NodeGroupARN(g.Cluster, g.Name, g.ID), ClusterName: g.Cluster,
		Version: g.Target.Version, ReleaseVersion: cmp.Or(g.Target.ReleaseVersion, g.Target.Image),
		Status:    string(g.Status),
		CreatedAt: epochSeconds(g.CreatedAt), ModifiedAt: epochSeconds(g.ModifiedAt),
		ScalingConfig: scalingConfig{MinSize: &g.Sizes.Min, MaxSize: &g.Sizes.Max, DesiredSize: &g.Sizes.Desired},
		Subnets:       orEmpty(g.Subnets), NodeRole: g.Role, Labels: orNone(g.Labels),
		Taints:    taintShapes(g.Taints),
		Tags:      orNone(g.Tags),
		Resources: resources{[]autoScalingGroup{{g.AutoScalingGroup}}}, Health: healthShape(g.Issues),
		UpdateConfig: updateConfigShape(g.Config),
	}
	if m := g.Machines; m != nil {
		out.machine = machine{string(m.CapacityType), orEmpty(m.InstanceTypes), g.Target.AMIType, nil}
	}
	switch {
	case g.Target.HasOwnTemplate():
		out.LaunchTemplate = &launchTemplate{ID: g.Target.SourceTemplate, Name: g.Target.SourceName,
			Version: g.Target.SourceVersion}
	case g.IsMade():
		out.DiskSize = &g.Machines.DiskSize
	default:
		out.DiskSize = new(defaultDiskSize)
	}
	return out
}

func healthShape(of []cluster.NodeGroupIssue) health {
	return health{shape.ConvertEach(of, func(i cluster.NodeGroupIssue) issue {
		return issue{string(i.Code), i.Message, orEmpty(i.Resources)}
	})}
}

// updateConfigShape returns an update configuration with its defaults: one node at a time, strategy
// DEFAULT.
func updateConfigShape(c cluster.UpdateConfig) (out updateConfig) {
	strategy := string(c.Strategy)
	if strategy == "" {
		strategy = string(cluster.UpdateDefault)
	}
	out.UpdateStrategy = &strategy
	if c.MaxUnavailablePercentage > 0 {
		out.MaxUnavailablePercentage = &c.MaxUnavailablePercentage
		return out
	}
	out.MaxUnavailable = new(max(c.MaxUnavailable, 1))
	return out
}

// updateShape returns an update as the API shows it.
func updateShape(u *cluster.Update) *update {
	return &update{
		ID: u.ID, Status: string(u.Status), Type: string(u.Type), CreatedAt: epochSeconds(u.CreatedAt),
		Params: shape.ConvertEach(u.Params, func(p cluster.UpdateParam) param { return param{p.Type, p.Value} }),
		Errors: shape.ConvertEach(u.Errors, func(x cluster.UpdateError) errorDetail {
			return errorDetail{string(x.Code), x.Message, orEmpty(x.Resources)}
		}),
	}
}

// orNone returns an empty map for nil, which JSON would write as null.
func orNone(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// orEmpty returns an empty list for nil, which JSON would write as null.
func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
