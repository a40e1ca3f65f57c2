package nodegroup_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// madeGroup returns the row of a new node group that Berth makes.
func madeGroup(t *testing.T, change func(*cluster.NodeGroup)) *cluster.NodeGroup {
	t.Helper()
	g := &cluster.NodeGroup{Head: cluster.Head{Cluster: "prod"}, Name: "web", ID: "7", CreatedAt: noon,
		Machines: &cluster.Machines{}, Role: "arn:aws:iam::123456789012:role/path/nodes", Subnets: []string{"subnet-1"},
		NodeLabels: cluster.NodeLabels{Labels: map[string]string{"team": "blue"}}}
	if change != nil {
		change(g)
	}
	if err := nodegroup.InitMade(g, "main"); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestBlueprint(t *testing.T) {
	g := madeGroup(t, nil)
	g.Target.Image = "ami-1"
	tags := map[string]string{"owner": "main", "eks:cluster-name": "prod", "eks:nodegroup-name": "web"}
	want := nodegroup.Blueprint{
		Profile: cluster.NewProfile{Name: "berth-main-7", Role: "nodes", Tags: tags},
		Template: cluster.NewTemplate{Name: "berth-main-7", Image: "ami-1", Profile: "berth-main-7",
			UserData: nodegroup.UserData(g), DiskSize: 30, Device: "/dev/xvda", Tags: tags},
		Group: cluster.NewAutoScalingGroup{Name: "berth-main-7", Types: []string{"t3.medium"},
			Subnets: []string{"subnet-1"}, Sizes: cluster.Sizes{Min: 1, Max: 2, Desired: 2}, Tags: tags},
	}
	if got := nodegroup.NewBlueprint(g, "owner", "main"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	g = madeGroup(t, func(g *cluster.NodeGroup) {
		g.Target.AMIType, g.Machines.CapacityType = "BOTTLEROCKET_ARM_64", cluster.Spot
		g.Sizes = cluster.Sizes{Max: 1}
	})
	got := nodegroup.NewBlueprint(g, "owner", "main")
	if got.Template.Device != "/dev/xvdb" || got.Template.DiskSize != 20 || !got.Group.Spot ||
		got.Group.Sizes != (cluster.Sizes{Max: 1}) {
		t.Errorf("got %+v", got)
	}
}

func TestMachinesThatCannotBeMade(t *testing.T) {
	for name, c := range map[string]struct {
		machines cluster.Machines
		amiType  string
		template string // of the user's own
		prefix   string
		says     string
	}{
		"AMITypeBesideATemplate": {amiType: "WINDOWS_CORE_2022_x86_64", template: "lt-1", says: "AL2023_x86_64_STANDARD"},
		"CustomWithoutATemplate": {amiType: nodegroup.CustomAMIType, says: "AL2023_x86_64_STANDARD"},
		"AMIType":                {amiType: "WINDOWS_CORE_2022_x86_64", says: "AL2023_x86_64_STANDARD"},
		"ARMTypeByDefault": {machines: cluster.Machines{InstanceTypes: []string{"m5.large", "t4g.medium"}},
			says: "[t4g.medium] is not a valid instance type for requested amiType AL2023_x86_64_STANDARD"},
		"ARMImage": {machines: cluster.Machines{InstanceTypes: []string{"m5.large"}}, amiType: "AL2023_ARM_64_STANDARD",
			says: "[m5.large] is not a valid instance type for requested amiType AL2023_ARM_64_STANDARD"},
		"ARMImageBesideATemplate": {machines: cluster.Machines{InstanceTypes: []string{"g4dn.xlarge"}}, amiType: "AL2_ARM_64",
			template: "lt-1", says: "[g4dn.xlarge] is not a valid instance type"},
		"CapacityType": {machines: cluster.Machines{CapacityType: "CAPACITY_BLOCK"}, says: "ON_DEMAND or SPOT"},
		"Disk":         {machines: cluster.Machines{DiskSize: 29}, says: "at least 30 GiB"},
		"Name":         {prefix: strings.Repeat("x", 122), says: "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &cluster.NodeGroup{ID: "7", Machines: &c.machines,
				Target: cluster.UpdateTarget{AMIType: c.amiType, SourceTemplate: c.template}}
			if err := nodegroup.InitMade(g, c.prefix); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

// Types with an ARM processor are known by their name: most have a g behind their generation.
func TestMachinesOfEachArchitecture(t *testing.T) {
	for amiType, types := range map[string][]string{
		"AL2023_ARM_64_STANDARD": {"a1.large", "t4g.small", "m6gd.large", "c7gn.xlarge", "im4gn.large", "is4gen.medium",
			"x2gd.medium", "g5g.xlarge", "hpc7g.4xlarge", "r8g.metal-24xl", "i8ge.large", "p6e-gb200.36xlarge"},
		"AL2_x86_64": {"m5.large", "t3.medium", "c5ad.large", "g4dn.xlarge", "g6e.xlarge", "gr6.4xlarge", "m7i-flex.large",
			"u-6tb1.metal", "u7i-12tb.224xlarge", "p5en.48xlarge", "mac1.metal", "trn1.2xlarge"},
	} {
		for _, instanceType := range types {
			g := &cluster.NodeGroup{ID: "7", Machines: &cluster.Machines{InstanceTypes: []string{instanceType}},
				Target: cluster.UpdateTarget{AMIType: amiType}}
			if err := nodegroup.InitMade(g, "main"); err != nil {
				t.Error(err)
			}
		}
	}
	g := madeGroup(t, func(g *cluster.NodeGroup) { g.Target.AMIType = "AL2_ARM_64" })
	if got := g.Machines.InstanceTypes; !reflect.DeepEqual(got, []string{"t4g.medium"}) {
		t.Errorf("the default of an ARM image is %q", got)
	}
}

// A launch template of the user's own says the image, or that it is one of the user's.
func TestImagesOfOwnTemplates(t *testing.T) {
	for _, amiType := range []string{"", nodegroup.CustomAMIType, "AL2023_x86_64_STANDARD"} {
		g := &cluster.NodeGroup{ID: "7", Machines: &cluster.Machines{},
			Target: cluster.UpdateTarget{AMIType: amiType, SourceTemplate: "lt-1"}}
		if err := nodegroup.InitMade(g, "main"); err != nil || g.Target.AMIType != amiType {
			t.Errorf("amiType %q becomes %q: %v", amiType, g.Target.AMIType, err)
		}
		if m := g.Machines; len(m.InstanceTypes) > 0 || m.DiskSize > 0 {
			t.Errorf("the template says which machines to launch, but so does the node group: %+v", *m)
		}
	}
}

func TestUserData(t *testing.T) {
	for name, c := range map[string]struct {
		amiType  string
		capacity cluster.CapacityType
		want     string
	}{
		"AmazonLinux": {"AL2023_x86_64_STANDARD", cluster.OnDemand, `#!/bin/bash
cat >> /etc/ecs/ecs.config <<'EOF'
ECS_CLUSTER=prod
ECS_INSTANCE_ATTRIBUTES={"eks.amazonaws.com/nodegroup":"web","team":"blue"}
EOF
`},
		"GPUsOnSpot": {"AL2_x86_64_GPU", cluster.Spot, `#!/bin/bash
cat >> /etc/ecs/ecs.config <<'EOF'
ECS_CLUSTER=prod
ECS_INSTANCE_ATTRIBUTES={"eks.amazonaws.com/nodegroup":"web","team":"blue"}
ECS_ENABLE_SPOT_INSTANCE_DRAINING=true
ECS_ENABLE_GPU_SUPPORT=true
EOF
`},
		"Bottlerocket": {"BOTTLEROCKET_x86_64", cluster.Spot, `[settings.ecs]
cluster = "prod"
enable-spot-instance-draining = true
[settings.ecs.instance-attributes]
"eks.amazonaws.com/nodegroup" = "web"
"team" = "blue"
`},
		"BottlerocketOnDemand": {"BOTTLEROCKET_x86_64", cluster.OnDemand, `[settings.ecs]
cluster = "prod"
[settings.ecs.instance-attributes]
"eks.amazonaws.com/nodegroup" = "web"
"team" = "blue"
`},
	} {
		t.Run(name, func(t *testing.T) {
			g := madeGroup(t, func(g *cluster.NodeGroup) {
				g.Target.AMIType, g.Machines.CapacityType = c.amiType, c.capacity
			})
			if got := nodegroup.UserData(g); got != c.want {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

// Each AMI type has parameters of its own; a release is one of them, the newest another.
func TestPublishedImages(t *testing.T) {
	seen := map[string]bool{}
	for _, amiType := range nodegroup.AMITypes() {
		newest := nodegroup.ImageParameters(cluster.UpdateTarget{AMIType: amiType})
		release := nodegroup.ImageParameters(cluster.UpdateTarget{AMIType: amiType, ReleaseVersion: "r"})
		for _, name := range slices.Concat(newest, release) {
			if seen[name] || !strings.HasPrefix(name, "/aws/service/") {
				t.Errorf("%s has the parameter %s", amiType, name)
			}
			seen[name] = true
		}
		values := map[string]string{newest[0]: `{"image_id": "ami-2", "image_name": "new"}`,
			release[0]: `{"image_id": "ami-1", "image_name": "r"}`}
		if len(newest) == 2 {
			values = map[string]string{newest[0]: "ami-2", newest[1]: "new", release[0]: "ami-1", release[1]: "r"}
		}
		for _, want := range []cluster.UpdateTarget{{Image: "ami-2", ReleaseVersion: "new"},
			{Image: "ami-1", ReleaseVersion: "r"}} {
			asked := cluster.UpdateTarget{AMIType: amiType}
			if want.ReleaseVersion == "r" {
				asked.ReleaseVersion = "r"
			}
			want.AMIType = amiType
			if got, err := nodegroup.PublishedTarget(asked, values); err != nil || got != want {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
			if _, err := nodegroup.PublishedTarget(asked, nil); cluster.ErrorCode(err) != cluster.CodeInvalidParameter {
				t.Errorf("without parameters: %v", err)
			}
		}
	}
}

// The waits of making and deleting a node group begin again that a clock began which had jumped ahead.
func TestMakingBegunAheadBeginsAgain(t *testing.T) {
	ahead, early := noon.Add(3*time.Hour), noon.Add(-time.Minute)
	g := madeGroup(t, func(g *cluster.NodeGroup) { g.CreatedAt, g.ModifiedAt = ahead, early })
	g.Machines.CreatingSince = ahead
	next := nodegroup.RestartWaits(g, noon)
	if !next.CreatedAt.Equal(noon) || !next.ModifiedAt.Equal(early) || !next.Machines.CreatingSince.Equal(noon) {
		t.Errorf("created %s, modified %s, creating since %s", next.CreatedAt, next.ModifiedAt,
			next.Machines.CreatingSince)
	}
	if !g.CreatedAt.Equal(ahead) || !g.Machines.CreatingSince.Equal(ahead) {
		t.Error("the row that was given has changed")
	}
	if nodegroup.RestartWaits(next, noon.Add(-cluster.MaxClockError)) != next {
		t.Error("times that a clock may have written which is right began again")
	}
}

func TestJoinIssues(t *testing.T) {
	g := madeGroup(t, nil)
	node := func(id string, connected bool) nodegroup.Instance {
		return nodegroup.Instance{ID: id, Row: &cluster.Instance{ID: id, Status: cluster.InstanceActive,
			AgentConnected: connected}}
	}
	group := nodegroup.Group{Name: "berth-main-7", Sizes: cluster.Sizes{Desired: 2}}
	failing := group
	failing.Failures = []nodegroup.LaunchFailure{{Zone: "a", Code: "VcpuLimitExceeded", Message: "no"}}
	for name, c := range map[string]struct {
		group nodegroup.Group
		nodes []nodegroup.Instance
		after time.Duration
		is    bool
		codes []cluster.IssueCode
	}{
		"Waits":  {group, []nodegroup.Instance{node("i-1", true)}, 14 * time.Minute, false, nil},
		"Joined": {group, []nodegroup.Instance{node("i-1", true), node("i-2", true)}, time.Hour, true, nil},
		"Missing": {group, []nodegroup.Instance{node("i-1", true), {ID: "i-2"}}, 15 * time.Minute, false,
			[]cluster.IssueCode{cluster.IssueNodes}},
		"Both": {failing, []nodegroup.Instance{node("i-1", false)}, 15 * time.Minute, false,
			[]cluster.IssueCode{cluster.IssueLaunches, cluster.IssueNodes}},
		"Launches": {failing, nil, 15 * time.Minute, false, []cluster.IssueCode{cluster.IssueLaunches}},
		"Empty":    {nodegroup.Group{}, nil, 0, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			joined, issues := nodegroup.JoinIssues(g, c.group, c.nodes, noon.Add(c.after))
			var codes []cluster.IssueCode
			for _, i := range issues {
				codes = append(codes, i.Code)
			}
			if joined != c.is || !slices.Equal(codes, c.codes) {
				t.Errorf("%v %+v", joined, issues)
			}
		})
	}
}

// What is refused for good is an issue with EKS's code; a profile that EC2 does not know yet is
// not.
func TestCreationIssues(t *testing.T) {
	g := madeGroup(t, nil)
	refusal := func(text string) error { return cluster.Errorf("ValidationError", "%s", text) }
	type issue = cluster.NodeGroupIssue
	for name, c := range map[string]struct {
		issue func() (*issue, error)
		want  cluster.IssueCode // empty: it is tried again
	}{
		"Subnet": {func() (*issue, error) {
			return nodegroup.CreationIssue(g, refusal("The subnet ID 'subnet-1' does not exist"), noon)
		}, cluster.IssueSubnet},
		"NewProfile": {func() (*issue, error) {
			return nodegroup.CreationIssue(g, refusal("Invalid IAM Instance Profile name"), noon.Add(4*time.Minute))
		}, ""},
		"OldProfile": {func() (*issue, error) {
			return nodegroup.CreationIssue(g, refusal("Invalid IAM Instance Profile name"), noon.Add(5*time.Minute))
		}, cluster.IssueGroup},
		"Role": {func() (*issue, error) {
			return nodegroup.ProfileIssue(cluster.Errorf("NoSuchEntity", "no role"), "p")
		}, cluster.IssueNodeRole},
		"Limit": {func() (*issue, error) {
			return nodegroup.ProfileIssue(cluster.Errorf("LimitExceeded", "too many"), "p")
		}, cluster.IssueIAMLimit},
		"Denied": {func() (*issue, error) {
			return nodegroup.ProfileIssue(cluster.Errorf("AccessDenied", "iam:PassRole"), "p")
		}, cluster.IssueAccessDenied},
		"Throttled": {func() (*issue, error) {
			return nodegroup.ImageIssue(cluster.Errorf(cluster.CodeThrottling, "slow down"), "x")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.issue()
			if c.want == "" && (got != nil || err == nil) || c.want != "" && (got == nil || got.Code != c.want) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// The nodes of a deleted node group are drained at once, and waited for until their tasks have
// left, for 15 minutes at most.
func TestDrainAll(t *testing.T) {
	active := nodegroup.Instance{ID: "i-1", Row: &cluster.Instance{ID: "n1", Status: cluster.InstanceActive}}
	draining := nodegroup.Instance{ID: "i-2", Row: &cluster.Instance{ID: "n2", Status: cluster.InstanceDraining}}
	busy := draining
	busy.Tasks = []nodegroup.Task{{Task: &cluster.Task{TaskSpec: cluster.TaskSpec{ID: "t"},
		TaskReport: cluster.TaskReport{Last: cluster.TaskRunning}}}}
	gone := nodegroup.Instance{ID: "i-3", Row: &cluster.Instance{ID: "n3", Status: cluster.InstanceInactive}}
	for name, c := range map[string]struct {
		nodes []nodegroup.Instance
		after time.Duration
		drain []string
		waits bool
	}{
		"Active":      {[]nodegroup.Instance{active, draining, gone}, 0, []string{"n1"}, true},
		"Busy":        {[]nodegroup.Instance{busy}, 14 * time.Minute, nil, true},
		"Empty":       {[]nodegroup.Instance{draining, gone, {ID: "i-4"}}, 0, nil, false},
		"NotForEver":  {[]nodegroup.Instance{busy, active}, 15 * time.Minute, nil, false},
		"WithoutNode": {nil, 0, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			drain, waits := nodegroup.DrainAll(c.nodes, noon, noon.Add(c.after))
			if !slices.Equal(drain, c.drain) || waits != c.waits {
				t.Errorf("%v %v", drain, waits)
			}
		})
	}
}

// The waits of a made node group end at known times: nodes have 15 minutes to join, tasks as long
// to leave, and two minutes after the last creation nothing appears any more. A new instance
// profile may be unknown to EC2 for five.
func TestMakingEnds(t *testing.T) {
	g := &cluster.NodeGroup{Status: cluster.NodeGroupCreating, CreatedAt: noon, ModifiedAt: noon.Add(time.Hour),
		Machines: &cluster.Machines{CreatingSince: noon.Add(time.Minute)}}
	wantEnds := func(want ...time.Duration) {
		t.Helper()
		var got []time.Duration
		for _, end := range nodegroup.MakingEnds(g) {
			got = append(got, end.Sub(noon))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: waits end %v after noon, want %v", g.Status, got, want)
		}
	}
	wantEnds(15 * time.Minute)
	g.Status = cluster.NodeGroupDeleting
	wantEnds(3*time.Minute, 75*time.Minute)
	unknown := cluster.Errorf("ValidationError", "Invalid IamInstanceProfile: Instance profile x not found")
	for _, c := range []struct {
		err   error
		after time.Duration
		waits bool
	}{
		{unknown, 0, true}, {unknown, 5*time.Minute - 1, true}, {unknown, 5 * time.Minute, false},
		{cluster.Errorf("ValidationError", "The subnet does not exist"), 0, false}, {errors.New("timed out"), 0, false},
		{nil, 0, false},
	} {
		if waits := nodegroup.AwaitsProfile(g, c.err, noon.Add(c.after)); waits != c.waits {
			t.Errorf("%v after %s: it waits for the profile: %v", c.err, c.after, waits)
		}
	}
}
