package sim_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/ec2"
)

// form calls an operation of the Query protocol that must succeed.
func (w *world) form(version string, fields url.Values) string {
	w.t.Helper()
	fields.Set("Version", version)
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 any")
	got := httptest.NewRecorder()
	w.ServeProtocols(http.NotFoundHandler()).ServeHTTP(got, r)
	if got.Code != http.StatusOK {
		w.t.Fatalf("%s: %s", fields.Get("Action"), got.Body)
	}
	return got.Body.String()
}

// A group continues where it was: launches in progress end, terminations that a hook holds up still
// wait, and its template and its policies are kept.
func TestGroupSurvivesAKill(t *testing.T) {
	w, path := storedWorld(t)
	w.form("2016-11-15", url.Values{
		"Action": {"CreateLaunchTemplate"}, "LaunchTemplateName": {"nodes"}, "LaunchTemplateData.ImageId": {"ami-1"},
		"LaunchTemplateData.InstanceType": {"t3.medium"}, "LaunchTemplateData.SecurityGroupId.1": {"sg-1"},
		"LaunchTemplateData.TagSpecification.1.Tag.1.Key": {"a"},
		"LaunchTemplateData.UserData":                     {base64.StdEncoding.EncodeToString([]byte("ECS_CLUSTER=prod"))},
	})
	w.form("2011-01-01", url.Values{
		"Action": {"CreateAutoScalingGroup"}, "AutoScalingGroupName": {"nodes"},
		"LaunchTemplate.LaunchTemplateName": {"nodes"}, "MinSize": {"0"},
		"MaxSize": {"4"}, "DesiredCapacity": {"2"}, "AvailabilityZones.member.1": {"eu-central-1a"},
	})
	w.clock.advance(launch)
	check(t, w.Groups.PutLifecycleHook(ctx, cluster.LifecycleHook{Group: "nodes", Name: "h", Heartbeat: time.Hour}))
	check(t, w.Groups.PutTrackingPolicy(ctx, cluster.TrackingPolicy{Group: "nodes", Name: "p", Namespace: "n",
		Cluster: "prod", Provider: "p", Target: 100}))
	groups, err := w.Groups.DescribeGroups(ctx, []string{"nodes"})
	check(t, err)
	check(t, w.Groups.TerminateInstance(ctx, groups[0].Instances[0].ID, false)) // held up, and replaced

	next := w.killed(path, 10*time.Minute)
	next.clock.advance(time.Second)
	ids, err := next.ECS.ListInstances(ctx, "prod")
	check(t, err)
	expect(t, "registered when the replacement has arrived", len(ids), 3)
	next.clock.advance(49 * time.Minute)
	groups, err = next.Groups.DescribeGroups(ctx, []string{"nodes"})
	check(t, err)
	expect(t, "instances while one is held up", len(groups[0].Instances), 3)
	next.clock.advance(time.Minute)
	groups, err = next.Groups.DescribeGroups(ctx, []string{"nodes"})
	check(t, err)
	expect(t, "instances when the heartbeat is over", len(groups[0].Instances), 2)
	for action, want := range map[string]string{
		"DescribePolicies":          "<PolicyName>p</PolicyName>",
		"DescribeLifecycleHooks":    "<HeartbeatTimeout>3600</HeartbeatTimeout>",
		"DescribeScalingActivities": "Terminating EC2 instance",
	} {
		if got := next.form("2011-01-01", url.Values{"Action": {action},
			"AutoScalingGroupName": {"nodes"}}); !strings.Contains(got, want) {
			t.Errorf("%s: %s", action, got)
		}
	}
	got := next.form("2016-11-15", url.Values{"Action": {"DescribeLaunchTemplateVersions"},
		"LaunchTemplateName": {"nodes"}})
	for _, want := range []string{"<securityGroupIdSet><item>sg-1</item></securityGroupIdSet>",
		"<tagSpecificationSet><item><tagSet><item><key>a</key></item></tagSet></item></tagSpecificationSet>"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
}

// A termination that a hook holds up emits an event of Auto Scaling's shape, with the configured
// source.
func TestHeldTerminationIsReportedByAnEvent(t *testing.T) {
	var told []string
	c := newClock()
	f, err := sim.Open(sim.Options{Clock: c, Account: account, ScalingSource: "berth.fleet", Emit: func(event []byte) {
		if strings.Contains(string(event), "EC2 Instance-terminate Lifecycle Action") {
			told = append(told, string(event))
		}
	}})
	check(t, err)
	if status, answer := f.ECS.Endpoint().ServeOperation(ctx, "CreateCluster",
		[]byte(`{"clusterName":"c"}`)); status != http.StatusOK {
		t.Fatalf("%s", answer)
	}
	_, err = f.Groups.AddGroup(autoscaling.GroupSpec{Name: "g", Cluster: "c", Machine: ec2.Machine{Type: "m5.large"},
		Max: 2, Desired: 2})
	check(t, err)
	c.advance(launch)
	check(t, f.Groups.PutLifecycleHook(ctx, cluster.LifecycleHook{Group: "g", Name: "h", Heartbeat: time.Hour}))
	groups, err := f.Groups.DescribeGroups(ctx, []string{"g"})
	check(t, err)
	for _, i := range groups[0].Instances {
		check(t, f.Groups.TerminateInstance(ctx, i.ID, true))
	}
	expect(t, "events", len(told), 2)
	for n, event := range told {
		for _, want := range []string{`"source":"berth.fleet"`, `"LifecycleHookName":"h"`,
			`"EC2InstanceId":"` + groups[0].Instances[n].ID,
			`"LifecycleTransition":"autoscaling:EC2_INSTANCE_TERMINATING"`} {
			if !strings.Contains(event, want) {
				t.Errorf("%s lacks %s", event, want)
			}
		}
	}
	if told[0][:60] == told[1][:60] {
		t.Error("both have the same id")
	}
}
