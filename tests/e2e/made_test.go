package e2e

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"berth/tests/cloud"
)

func TestMadeNodeGroupScenario(t *testing.T) { runMadeScenario(t, newVirtual(t), "DEFAULT") }

// A madeScenario is a node group whose Auto Scaling group Berth makes.
type madeScenario struct {
	*nodeGroupScenario
	strategy string
	before   []string // what was there before
}

// runMadeScenario creates a node group without an Auto Scaling group, updates it to the newest
// image and deletes it, and looks what is left.
func runMadeScenario(t *testing.T, tier capacityTier, strategy string) {
	m := &madeScenario{&nodeGroupScenario{capacityScenario: newCapacityScenario(t, tier, "slip")}, strategy, nil}
	m.runSteps([]step{
		{"MadeWithAnOlderImage", m.create},
		{"UpdatedToTheNewest", m.updateVersion},
		{"DeletedWithAllThatWasMade", m.delete},
	})
}

func (m *madeScenario) create() {
	mustSucceed(m.api.CreateCluster(m.t.Context(), &ecs.CreateClusterInput{ClusterName: &m.cluster}))(&m.scenario)
	m.before = m.madeResources()
	made := m.callEKS(http.MethodPost, "node-groups", `{"nodegroupName": "nodes", "subnets": ["subnet-1"],
		"nodeRole": "arn:aws:iam::123456789012:role/nodes", "instanceTypes": ["t3.medium"], "labels": {"team": "blue"},
		"releaseVersion": "al2023-ami-ecs-hvm-2023.0.20260901-kernel-6.1-x86_64", "diskSize": 40,
		"scalingConfig": {"minSize": 1, "maxSize": 3, "desiredSize": 1},
		"updateConfig": {"maxUnavailable": 1, "updateStrategy": "`+m.strategy+`"}}`, "nodegroup")
	if made["status"] != "CREATING" || made["amiType"] != "AL2023_x86_64_STANDARD" || made["diskSize"] != 40.0 ||
		made["capacityType"] != "ON_DEMAND" {
		m.t.Errorf("the node group is %v", made)
	}
	m.awaitUpgrade("an ACTIVE node group", func() bool { return m.nodeGroupStatus() == "ACTIVE" })
	if left := m.added(); len(left) != 3 || len(m.instances()) != 1 {
		m.t.Errorf("made are %q, with instances %v", left, m.instances())
	}
}

// madeResources returns the names of all groups, launch templates and instance profiles.
func (m *madeScenario) madeResources() (names []string) {
	m.t.Helper()
	ctx, profiles := m.t.Context(), iam.NewFromConfig(m.tier.SimulatedConfig())
	for _, g := range mustSucceed(m.groups.DescribeAutoScalingGroups(ctx,
		&autoscaling.DescribeAutoScalingGroupsInput{}))(&m.scenario).AutoScalingGroups {
		names = append(names, "group "+*g.AutoScalingGroupName)
	}
	for _, t := range mustSucceed(m.ec2.DescribeLaunchTemplates(ctx,
		&ec2.DescribeLaunchTemplatesInput{}))(&m.scenario).LaunchTemplates {
		names = append(names, "template "+*t.LaunchTemplateName)
	}
	for _, p := range mustSucceed(profiles.ListInstanceProfiles(ctx,
		&iam.ListInstanceProfilesInput{}))(&m.scenario).InstanceProfiles {
		names = append(names, "profile "+*p.InstanceProfileName)
	}
	return names
}

// added returns what there is of Berth's since the beginning: other scenarios make other things.
func (m *madeScenario) added() []string {
	m.t.Helper()
	return slices.DeleteFunc(m.madeResources(), func(name string) bool {
		return slices.Contains(m.before, name) || !strings.Contains(name, " berth-berth-")
	})
}

func (m *madeScenario) updateVersion() {
	started := m.callEKS(http.MethodPost, "node-groups/nodes/update-version", `{}`, "update")
	id, _ := started["id"].(string)
	var now map[string]any
	m.awaitUpgrade("an end of the update", func() bool {
		now = m.callEKS(http.MethodGet, "updates/"+id+"?nodegroupName=nodes", "", "update")
		return now["status"] != "InProgress"
	})
	g := m.callEKS(http.MethodGet, "node-groups/nodes", "", "nodegroup")
	if now["status"] != "Successful" || g["releaseVersion"] != "al2023-ami-ecs-hvm-2023.0.20261015-kernel-6.1-x86_64" {
		m.t.Fatalf("the update is %v, the node group %v", now, g)
	}
}

func (m *madeScenario) delete() {
	m.deleteNodeGroup()
	if left := m.added(); len(left) > 0 {
		m.t.Errorf("left behind are %q", left)
	}
	m.await("the end of its instances", func() bool {
		return !slices.ContainsFunc(m.instances(), func(i types.ContainerInstance) bool {
			return aws.ToString(i.Status) != "INACTIVE"
		})
	})
}

// checkConditionsOnNewGroups judges the creation of Auto Scaling groups: only groups of a name of
// this installation's, with its tag, may be made.
func checkConditionsOnNewGroups(t *testing.T, l *local, used map[grant]cloud.Call) {
	made := used[grant{"node-group-upgrade", "autoscaling:CreateAutoScalingGroup"}]
	form, err := url.ParseQuery(string(made.Request))
	if err != nil || !form.Has("AutoScalingGroupName") {
		t.Fatalf("no group was made: %s, %v", made.Request, err)
	}
	if why := l.Authorize(t.Context(), made); why != "" {
		t.Error(why)
	}
	for name, change := range map[string]map[string]string{
		"AForeignName": {"AutoScalingGroupName": "theirs", "Tags.member.1.ResourceId": "theirs",
			"Tags.member.2.ResourceId": "theirs", "Tags.member.3.ResourceId": "theirs"},
		"AForeignTag": {"Tags.member.1.Value": "theirs"},
	} {
		changed := maps.Clone(form)
		for member, value := range change {
			changed.Set(member, value)
		}
		made.Request = []byte(changed.Encode())
		if l.Authorize(t.Context(), made) == "" {
			t.Errorf("%s: allowed", name)
		}
	}
}
