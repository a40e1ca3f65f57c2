package nodegroup

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"berth/shared/cluster"
)

// Defaults of a node group that Berth makes, as EKS has them.
const (
	defaultInstanceType    = "t3.medium"
	defaultARMInstanceType = "t4g.medium"
)

var defaultSizes = cluster.Sizes{Min: 1, Max: 2, Desired: 2}

// maxMadeName is how long the name of a launch template may be (EC2 API), and of an instance
// profile (IAM API).
const maxMadeName = 128

// Tags of what Berth makes for a node group, besides the one that says which installation did. EKS
// has the same two.
const (
	tagCluster   = "eks:cluster-name"
	tagNodeGroup = "eks:nodegroup-name"
)

// InitMade completes the row of a new node group that Berth makes: its name and its defaults. It
// fails with InvalidParameterException for an AMI type that is not published for container
// instances, for an instance type of another architecture, and for a disk smaller than the image's.
func InitMade(g *cluster.NodeGroup, installation string) error {
	g.AutoScalingGroup = cluster.MadeName(installation, g.ID)
	if len(g.AutoScalingGroup) > maxMadeName {
		return cluster.Errorf(cluster.CodeInvalidRequest,
			"The name of this installation, %s, is too long for the name of a launch template, %s. Name an Auto "+
				"Scaling group of your own with the tag %s", installation, g.AutoScalingGroup, cluster.AutoScalingTag)
	}
	m := g.Machines
	if m.CapacityType = cmp.Or(m.CapacityType, cluster.OnDemand); m.CapacityType != cluster.OnDemand &&
		m.CapacityType != cluster.Spot {
		return cluster.Errorf(cluster.CodeInvalidParameter, "capacityType is ON_DEMAND or SPOT, not %.50q",
			m.CapacityType)
	}
	if g.Sizes == (cluster.Sizes{}) {
		g.Sizes = defaultSizes
	}
	own := g.Target.HasOwnTemplate()
	if !own {
		g.Target.AMIType = cmp.Or(g.Target.AMIType, DefaultAMIType)
	}
	family, known := imageFamilies[g.Target.AMIType]
	if !known && !(own && (g.Target.AMIType == "" || g.Target.AMIType == CustomAMIType)) {
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"There are no images of amiType %.50s for container instances. Known are %s", g.Target.AMIType,
			strings.Join(AMITypes(), ", "))
	}
	for _, t := range m.InstanceTypes {
		if known && isARMType(t) != family.isARM() {
			return cluster.Errorf(cluster.CodeInvalidParameter,
				"[%s] is not a valid instance type for requested amiType %s", t, g.Target.AMIType)
		}
	}
	if own {
		return nil // the template says the rest
	}
	_, least := family.disk()
	if m.DiskSize = cmp.Or(m.DiskSize, least); m.DiskSize < least {
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"diskSize is %d, but the images of amiType %s need at least %d GiB", m.DiskSize, g.Target.AMIType, least)
	}
	if len(m.InstanceTypes) == 0 {
		m.InstanceTypes = defaultInstanceTypes(g.Target.AMIType)
	}
	return nil
}

// madeTags returns the tags of what Berth makes for a node group. The first says which installation
// may change it.
func madeTags(g *cluster.NodeGroup, ownerTag, installation string) map[string]string {
	return map[string]string{ownerTag: installation, tagCluster: g.Cluster, tagNodeGroup: g.Name}
}

// A Blueprint is everything that Berth makes for a node group, in the order in which it is made.
type Blueprint struct {
	Profile  cluster.NewProfile
	Template cluster.NewTemplate
	Group    cluster.NewAutoScalingGroup // its template is known once that is made
}

// NewBlueprint returns what to make for a node group whose image is known. With a launch template
// of the user's own it has no user data ([MergeUserData]).
func NewBlueprint(g *cluster.NodeGroup, ownerTag, installation string) Blueprint {
	name, tags := g.AutoScalingGroup, madeTags(g, ownerTag, installation)
	device, _ := imageFamilies[g.Target.AMIType].disk()
	template := cluster.NewTemplate{Name: name, Image: g.Target.Image, Profile: name, Tags: tags}
	if g.Target.HasOwnTemplate() {
		template.From = SourceTemplate(g.Target)
	} else {
		template.UserData, template.DiskSize, template.Device = UserData(g), g.Machines.DiskSize, device
	}
	return Blueprint{
		Profile:  cluster.NewProfile{Name: name, Role: cluster.LastPart(g.Role), Tags: tags},
		Template: template,
		Group: cluster.NewAutoScalingGroup{
			Name: name, Types: g.Machines.InstanceTypes, Spot: g.Machines.CapacityType == cluster.Spot,
			Subnets: g.Subnets, Sizes: g.Sizes, Tags: tags,
		},
	}
}

// UserDataDescription returns the description of the launch template version that has the present
// labels of a node group in its user data, and is otherwise like another version. An update that is
// repeated finds by it the version that it has made already.
func UserDataDescription(g *cluster.NodeGroup, userData string, from *cluster.LaunchTemplate) string {
	return "berth/" + g.Name + "/" + cluster.Digest("user data", userData, from.String())
}

// LaunchFrom records the launch template version that a change has left the group of a node group
// with that Berth makes; empty if the change has set none.
func LaunchFrom(g *cluster.NodeGroup, template string) {
	if g.IsMade() && template != "" {
		machines := *g.Machines
		machines.LaunchTemplate, g.Machines = template, &machines
	}
}

// LaunchesFrom returns the launch template version that a group that Berth makes is to launch from;
// empty if no change has set one, and for a group of the user's.
func LaunchesFrom(g *cluster.NodeGroup) string {
	if !g.IsMade() {
		return ""
	}
	return g.Machines.LaunchTemplate
}

// Times of making and deleting a node group.
const (
	// joinTimeout is how long the nodes of a new node group may take to join the cluster.
	joinTimeout = 15 * time.Minute
	// profileTimeout is how long a new instance profile may be unknown to EC2, because IAM's
	// changes arrive late.
	profileTimeout = 5 * time.Minute
	// creationTimeout is how long after the beginning of a round of creation a call is begun.
	creationTimeout = 30 * time.Second
	// lateCallTimeout is how long after that beginning a call may still take effect.
	lateCallTimeout = 2 * time.Minute
	// emptyTimeout is how long the tasks of a deleted node group may take to leave its nodes.
	emptyTimeout = 15 * time.Minute
)

// MakingEnds returns when the waits of a node group end that Berth makes or deletes, if nothing
// ends them before: its nodes have until then to join, or its tasks to leave; and no call of the
// creation takes effect any more.
func MakingEnds(g *cluster.NodeGroup) []time.Time {
	if g.Status == cluster.NodeGroupCreating {
		return []time.Time{g.CreatedAt.Add(joinTimeout)}
	}
	return []time.Time{g.Machines.CreatingSince.Add(lateCallTimeout), g.ModifiedAt.Add(emptyTimeout)}
}

// RestartWaits restarts waits of a node group that Berth makes or deletes whose start lies ahead, because
// a clock had jumped, as in an update (N6). They would otherwise last until the present clock gets there.
// The result is the same pointer if there are none.
func RestartWaits(g *cluster.NodeGroup, now time.Time) *cluster.NodeGroup {
	next, machines := *g, *g.Machines
	next.Machines = &machines
	again := false
	for _, start := range []*time.Time{&next.CreatedAt, &next.ModifiedAt, &machines.CreatingSince} {
		if cluster.IsAhead(*start, now) {
			*start, again = now, true
		}
	}
	if !again {
		return g
	}
	return &next
}

// MayCreate reports whether there is time to begin another call that creates something: what it
// makes must be there before the node group could be forgotten.
func MayCreate(g *cluster.NodeGroup, now time.Time) bool {
	return now.Before(g.Machines.CreatingSince.Add(creationTimeout))
}

// MayForget reports whether every call that creates something for the node group has had its
// effect, so that nothing appears any more once all is deleted.
func MayForget(g *cluster.NodeGroup, now time.Time) bool {
	return !now.Before(g.Machines.CreatingSince.Add(lateCallTimeout))
}

// JoinIssues says whether the nodes of a new Auto Scaling group have joined the cluster: as many
// as the group should have are connected. After 15 minutes the issues say why they have not.
func JoinIssues(
	g *cluster.NodeGroup, group Group, nodes []Instance, now time.Time,
) (joined bool, issues []cluster.NodeGroupIssue) {
	connected := 0
	var missing []string
	for _, n := range nodes {
		if n.isConnected() {
			connected++
		} else {
			missing = append(missing, n.ID)
		}
	}
	if connected >= group.Desired {
		return true, nil
	}
	if now.Before(g.CreatedAt.Add(joinTimeout)) {
		return false, nil
	}
	for _, cause := range launchCauses(group.Failures) {
		issues = append(issues, cluster.NodeGroupIssue{Code: cluster.IssueLaunches, Message: cause,
			Resources: []string{group.Name}})
	}
	if len(missing) > 0 || len(issues) == 0 {
		issues = append(issues, cluster.NodeGroupIssue{Code: cluster.IssueNodes, Resources: missing,
			Message: fmt.Sprintf("Instances failed to join the cluster: %d of %d have a connected agent", connected,
				group.Desired)})
	}
	return false, issues
}

// ProfileIssue returns an error of IAM as an issue if it is permanent, and otherwise the error.
func ProfileIssue(err error, name string) (*cluster.NodeGroupIssue, error) {
	code := cluster.IssueNodeRole
	if cluster.ErrorCode(err) == "LimitExceeded" {
		code = cluster.IssueIAMLimit
	}
	return permanentIssue(err, code, name)
}

// CreationIssue returns an error of the creation of the Auto Scaling group as an issue if it is
// permanent, and otherwise the error. A profile that EC2 does not know yet is not permanent.
func CreationIssue(g *cluster.NodeGroup, err error, now time.Time) (*cluster.NodeGroupIssue, error) {
	code := cluster.IssueGroup
	if AwaitsProfile(g, err, now) {
		return nil, err
	}
	if why := cluster.PermanentError(err); why != nil && strings.Contains(strings.ToLower(why.Message), "subnet") {
		code = cluster.IssueSubnet
	}
	return permanentIssue(err, code, g.AutoScalingGroup)
}

// AwaitsProfile reports whether an error says that EC2 does not know a new instance profile yet.
func AwaitsProfile(g *cluster.NodeGroup, err error, now time.Time) bool {
	why := cluster.PermanentError(err)
	return why != nil && strings.Contains(strings.ToLower(why.Message), "instance profile") &&
		now.Before(g.CreatedAt.Add(profileTimeout))
}

// ImageIssue returns an error of the search for the image as an issue if it is permanent, and
// otherwise the error.
func ImageIssue(err error, amiType string) (*cluster.NodeGroupIssue, error) {
	return permanentIssue(err, cluster.IssueImage, amiType)
}

// DrainAll returns the nodes of a node group that is being deleted which must still be made
// DRAINING, by container instance id, and reports whether tasks are to be waited for. The tasks
// have 15 minutes to leave.
func DrainAll(nodes []Instance, since, now time.Time) (drain []string, isBusy bool) {
	if !now.Before(since.Add(emptyTimeout)) {
		return nil, false
	}
	for _, n := range nodes {
		if n.nodeID() == "" {
			continue
		}
		if n.Row.Status == cluster.InstanceActive {
			drain = append(drain, n.Row.ID)
		}
		isBusy = isBusy || len(n.remainingTasks()) > 0
	}
	return drain, isBusy || len(drain) > 0
}
