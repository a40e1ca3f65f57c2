package installation_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/sim/ec2"
)

// joinData is user data by which nodes join the cluster.
const joinData = "#!/bin/bash\necho ECS_CLUSTER=" + home + " >> /etc/ecs/ecs.config\n"

// ownData is user data of the user's own that Berth adds a part to.
const ownData = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"==B==\"\n\n--==B==\n" +
	"Content-Type: text/x-shellscript; charset=\"us-ascii\"\n\n#!/bin/bash\necho mine\n\n--==B==--\n"

// update updates the node group, and waits until it is ACTIVE again and the old nodes are gone.
func (m made) update(change operation.UpdateNodeGroupVersion) {
	m.Helper()
	change.Cluster, change.NodeGroup, change.Params = home, "web", "p"
	if _, err := m.API.NodeGroups.UpdateNodeGroupVersion(m.Context(), change); err != nil {
		m.Fatal(err)
	}
	m.await(cluster.NodeGroupActive, time.Hour)
	run(m.Installation, time.Minute)
}

// launchTemplate reads the launch template version that the node group launches from.
func (m made) launchTemplate() *cluster.LaunchTemplate {
	m.Helper()
	id, version, _ := strings.Cut(m.template(), ":")
	lt, err := m.AWS.Templates.LaunchTemplate(m.Context(), cluster.TemplateRef{ID: id, Version: version})
	if err != nil {
		m.Fatal(err)
	}
	return lt
}

// A node group is made of the user's own launch template, which names the image and has the user
// data that joins. Berth copies it, with the instance profile of the node role. It is updated to
// another version of the template; labels change on the nodes alone. The user's template stays.
func TestBerthMakesANodeGroupOfACustomImage(t *testing.T) {
	m := made{t, scaled(t, nil)}
	own, err := m.AWS.Templates.AddTemplate("own", "ami-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{"ami-2", "ami-3"} {
		if _, err := m.AWS.Templates.CreateVersion(t.Context(), cluster.NewTemplateVersion{Template: own,
			From: cluster.TemplateRef{ID: own, Version: "1"}, Image: image, UserData: joinData}); err != nil {
			t.Fatal(err)
		}
	}
	m.create(operation.CreateNodeGroup{Machines: &cluster.Machines{}, Labels: map[string]string{"team": "blue"},
		Template: &cluster.TemplateRef{Name: "own", Version: "2"}, Sizes: &cluster.Sizes{Min: 1, Max: 4, Desired: 2}})
	m.await(cluster.NodeGroupActive, 3*time.Minute)
	run(m.Installation, time.Minute)
	labels := map[string]string{"team": "blue", "eks.amazonaws.com/nodegroup-image": "ami-2",
		"eks.amazonaws.com/sourceLaunchTemplateId": own, "eks.amazonaws.com/sourceLaunchTemplateVersion": "2"}
	m.checkLabels(2, labels)
	if g := m.nodeGroup(); g.Target.AMIType != "CUSTOM" || g.Machines.InstanceTypes[0] != "t3.medium" ||
		g.Target.SourceTemplate != own {
		t.Errorf("%+v of %+v", g.Target, g.Machines)
	}
	if lt := m.launchTemplate(); lt.UserData != joinData {
		t.Errorf("the user data is %q", lt.UserData)
	}
	template := m.template()
	m.relabel(cluster.LabelsChange{Set: map[string]string{"team": "green"}})
	if m.template() != template {
		t.Errorf("a change of labels made template %s of %s", m.template(), template)
	}
	m.update(operation.UpdateNodeGroupVersion{Template: &cluster.TemplateRef{ID: own, Version: "3"}})
	m.checkLabels(2, map[string]string{"team": "green", "eks.amazonaws.com/nodegroup-image": "ami-3",
		"eks.amazonaws.com/sourceLaunchTemplateVersion": "3"})
	if m.nodeGroup().Target.Image != "ami-3" {
		t.Errorf("the node group has %+v", m.nodeGroup().Target)
	}
	m.remove()
	if lt, err := m.AWS.Templates.LaunchTemplate(t.Context(), cluster.TemplateRef{ID: own, Version: "3"}); err != nil ||
		lt.Image != "ami-3" {
		t.Errorf("the user's template is %+v, %v", lt, err)
	}
}

// A launch template of the user's own that names no image is used with a published one. Its user
// data comes first, then what joins the cluster, also after a change of labels, an update to
// another release and one to another version of the template.
func TestBerthMakesANodeGroupOfALaunchTemplate(t *testing.T) {
	m := made{t, scaled(t, nil)}
	data := ec2.Data{"InstanceType": "m5.large", "UserData": base64.StdEncoding.EncodeToString([]byte(ownData))}
	own, err := m.AWS.Templates.AddTemplateWith("own", data)
	if err != nil {
		t.Fatal(err)
	}
	m.create(operation.CreateNodeGroup{Machines: &cluster.Machines{}, Labels: map[string]string{"team": "blue"},
		ReleaseVersion: "al2023-ami-ecs-hvm-2023.0.20260901-kernel-6.1-x86_64",
		Template:       &cluster.TemplateRef{ID: own}, Sizes: &cluster.Sizes{Min: 1, Max: 4, Desired: 2}})
	m.await(cluster.NodeGroupActive, 3*time.Minute)
	run(m.Installation, time.Minute)
	check := func(team, version string) {
		t.Helper()
		g, lt := m.nodeGroup(), m.launchTemplate()
		m.checkLabels(2, map[string]string{"team": team, "eks.amazonaws.com/nodegroup-image": g.Target.Image,
			"eks.amazonaws.com/sourceLaunchTemplateVersion": version})
		if g.Target.AMIType != "AL2023_x86_64_STANDARD" || lt.Image != g.Target.Image || lt.Type != "m5.large" {
			t.Errorf("%+v launches %+v", g.Target, lt)
		}
		mine, joins := strings.Index(lt.UserData, "echo mine"), strings.Index(lt.UserData, "ECS_CLUSTER="+home)
		if mine < 0 || joins < mine || !strings.Contains(lt.UserData, `"team":"`+team+`"`) {
			t.Errorf("the user data is %s", lt.UserData)
		}
	}
	check("blue", "1")
	first := m.nodeGroup().Target.Image
	m.relabel(cluster.LabelsChange{Set: map[string]string{"team": "green"}})
	check("green", "1")
	m.update(operation.UpdateNodeGroupVersion{})
	check("green", "1")
	if m.nodeGroup().Target.Image == first {
		t.Errorf("the update left the image %s", first)
	}
	if _, err := m.AWS.Templates.CreateVersion(t.Context(), cluster.NewTemplateVersion{Template: own,
		From: cluster.TemplateRef{ID: own, Version: "1"}, UserData: ownData + "\n"}); err != nil {
		t.Fatal(err)
	}
	m.update(operation.UpdateNodeGroupVersion{Template: &cluster.TemplateRef{ID: own, Version: "2"}})
	check("green", "2")
	m.remove()
}
