package nodegroup_test

import (
	"errors"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// archive is user data in the MIME multipart format.
const archive = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n" +
	"Content-Type: text/cloud-config\n\npackages: [jq]\n\n--//--\n"

// ofTemplate is a node group that Berth makes of a launch template of the user's own.
func ofTemplate(amiType string) *cluster.NodeGroup {
	g := &cluster.NodeGroup{Name: "web", Machines: &cluster.Machines{}}
	g.Cluster, g.Target = "prod", cluster.UpdateTarget{AMIType: amiType, SourceName: "own"}
	return g
}

// checkRefused checks the code and the words of an error; without words there must be none.
func checkRefused(t *testing.T, err error, code cluster.Code, words string) {
	t.Helper()
	var why *cluster.Error
	if words == "" {
		if err != nil {
			t.Error(err)
		}
	} else if !errors.As(err, &why) || why.Code != code || !strings.Contains(why.Message, words) {
		t.Errorf("%v, want %s: %s", err, code, words)
	}
}

// The image is that of the template, or a published one. What a template of a node group cannot say
// is refused as EKS does.
func TestOwnTemplateTarget(t *testing.T) {
	for name, c := range map[string]struct {
		amiType string
		target  cluster.UpdateTarget
		lt      cluster.LaunchTemplate
		want    string // AMI type
		refused string
	}{
		"Image":  {"", cluster.UpdateTarget{}, cluster.LaunchTemplate{Image: "ami-1"}, "CUSTOM", ""},
		"Custom": {"CUSTOM", cluster.UpdateTarget{}, cluster.LaunchTemplate{Image: "ami-1"}, "CUSTOM", ""},
		"Published": {"AL2_x86_64", cluster.UpdateTarget{}, cluster.LaunchTemplate{UserData: archive}, "AL2_x86_64",
			""},
		"Default": {"", cluster.UpdateTarget{}, cluster.LaunchTemplate{}, "AL2023_x86_64_STANDARD", ""},
		"ReleaseOnly": {"", cluster.UpdateTarget{ReleaseVersion: "r"}, cluster.LaunchTemplate{},
			"AL2023_x86_64_STANDARD", ""},
		"ImageTwice": {"AL2_x86_64", cluster.UpdateTarget{}, cluster.LaunchTemplate{Image: "ami-1"}, "",
			"You cannot specify an AMI Type other than CUSTOM, when specifying an image id in your launch template."},
		"Version": {"", cluster.UpdateTarget{Version: "1"}, cluster.LaunchTemplate{Image: "ami-1"}, "",
			"You cannot specify a kubernetes version to use when specifying an image id"},
		"Release": {"", cluster.UpdateTarget{ReleaseVersion: "1"}, cluster.LaunchTemplate{Image: "ami-1"}, "",
			"You cannot specify a releaseVersion"},
		"NoImage": {"CUSTOM", cluster.UpdateTarget{}, cluster.LaunchTemplate{}, "", "must specify an image id"},
		"Profile": {"", cluster.UpdateTarget{}, cluster.LaunchTemplate{Name: "own", Image: "ami-1",
			Settings: cluster.SettingProfile}, "", "Launch template own should not specify an instance profile. " +
			"The noderole in your request will be used to construct an instance profile."},
		"Settings": {"", cluster.UpdateTarget{}, cluster.LaunchTemplate{Name: "own", Settings: cluster.SettingSpot +
			", " + cluster.SettingSubnet}, "",
			"Launch template own should not specify InstanceMarketOptions, NetworkInterfaces.SubnetId."},
		"UserData": {"", cluster.UpdateTarget{}, cluster.LaunchTemplate{UserData: "#!/bin/bash\n"}, "",
			"User data was not in the MIME multipart format."},
	} {
		t.Run(name, func(t *testing.T) {
			g := ofTemplate(c.amiType)
			c.target.AMIType, c.lt.ID, c.lt.Version = c.amiType, "lt-1", 7
			got, err := nodegroup.OwnTemplateTarget(g, c.target, &c.lt)
			checkRefused(t, err, cluster.CodeInvalidParameter, c.refused)
			if err == nil && (got.AMIType != c.want || got.Image != c.lt.Image || got.SourceTemplate != "lt-1" ||
				got.SourceVersion != "7" || got.ReleaseVersion != c.target.ReleaseVersion) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Either the launch template or the request names instance types.
func TestMachinesOfTemplate(t *testing.T) {
	for _, c := range []struct {
		types   []string
		lt      cluster.LaunchTemplate
		want    string
		refused string
	}{
		{nil, cluster.LaunchTemplate{}, "t3.medium", ""},
		{[]string{"m5.large"}, cluster.LaunchTemplate{}, "m5.large", ""},
		{nil, cluster.LaunchTemplate{Type: "c5.large"}, "", ""},
		{nil, cluster.LaunchTemplate{Requirements: "{}"}, "", ""},
		{[]string{"m5.large"}, cluster.LaunchTemplate{Type: "c5.large"}, "m5.large",
			"Cannot specify instance types in launch template and API request"},
	} {
		got, err := nodegroup.MachinesOfTemplate(cluster.Machines{InstanceTypes: c.types}, "", &c.lt)
		checkRefused(t, err, cluster.CodeInvalidRequest, c.refused)
		if strings.Join(got.InstanceTypes, " ") != c.want {
			t.Errorf("%v with %+v gives %v", c.types, c.lt, got.InstanceTypes)
		}
	}
}

// The user's own user data comes first. What makes the node join the cluster is one more part of
// the archive, or follows the user's settings of Bottlerocket.
func TestMergeUserData(t *testing.T) {
	join := nodegroup.UserData(ofTemplate("AL2023_x86_64_STANDARD"))
	settings := nodegroup.UserData(ofTemplate("BOTTLEROCKET_x86_64"))
	for name, c := range map[string]struct{ amiType, own, want, refused string }{
		"None": {"AL2023_x86_64_STANDARD", " \n", join, ""},
		"Archive": {"AL2023_x86_64_STANDARD", archive, strings.TrimSuffix(archive, "--//--\n") +
			"--//\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\n\n" + join + "--//--\n", ""},
		"Script": {"AL2023_x86_64_STANDARD", "#!/bin/bash\necho\n", "", "not in the MIME multipart format"},
		"OnePart": {"AL2023_x86_64_STANDARD", "Content-Type: text/plain\n\nx", "",
			"not in the MIME multipart format"},
		"OneTextWithABoundary": {"AL2023_x86_64_STANDARD", strings.Replace(archive, "multipart/mixed", "text/plain", 1), "",
			"not in the MIME multipart format"},
		"BrokenHeader": {"AL2023_x86_64_STANDARD", strings.Replace(archive, "\n\n", "\nno field\n\n", 1), "",
			"not in the MIME multipart format"},
		"NoEnd": {"AL2023_x86_64_STANDARD", strings.TrimSuffix(archive, "--//--\n"), "",
			"not in the MIME multipart format"},
		"Bottlerocket": {"BOTTLEROCKET_x86_64", "[settings.host-containers.admin]\nenabled = true",
			"[settings.host-containers.admin]\nenabled = true\n" + settings, ""},
		"Table":   {"BOTTLEROCKET_x86_64", "[ settings.\"ecs\" ]\nx = 1\n", "", `has "[ settings.\"ecs\" ]"`},
		"SubKeys": {"BOTTLEROCKET_x86_64", "[settings.ecs.instance-attributes]\n", "", "are written by Berth"},
		"Dotted":  {"BOTTLEROCKET_x86_64", "[settings]\necs.cluster = \"x\"\n", "", "ecs.cluster"},
		"Inline":  {"BOTTLEROCKET_x86_64", "settings = { ecs = {} }\n", "", "are written by Berth"},
		"Size": {"AL2023_x86_64_STANDARD", strings.Replace(archive, "jq", strings.Repeat("j", 16200), 1), "",
			"but EC2 takes 16384"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := nodegroup.MergeUserData(c.own, ofTemplate(c.amiType))
			checkRefused(t, err, cluster.CodeInvalidParameter, c.refused)
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
