package sim_test

import (
	"net/http"
	"strings"
	"testing"
)

// Terraform compares what it has set with what the services describe, also of settings that change
// nothing here.
func TestSettingsWithoutEffectAreDescribed(t *testing.T) {
	t.Run("OfAGroup", func(t *testing.T) {
		w := newGroupWorld(t, 0, nil)
		w.made("ECS_CLUSTER=c", "HealthCheckGracePeriod", "120", "HealthCheckType", "ELB",
			"TerminationPolicies.member.1", "OldestInstance", "DefaultInstanceWarmup", "30")
		describe := func(want ...string) {
			t.Helper()
			got := w.scaling("DescribeAutoScalingGroups")
			for _, text := range want {
				if !strings.Contains(got, text) {
					t.Errorf("the group has no %s: %s", text, got)
				}
			}
		}
		describe("<HealthCheckGracePeriod>120<", "<HealthCheckType>ELB<", "<DefaultCooldown>300<",
			"<TerminationPolicies><member>OldestInstance<", "<DefaultInstanceWarmup>30<",
			"<CapacityDistributionStrategy>balanced-best-effort<", "<CapacityReservationPreference>default<")
		w.scaling("UpdateAutoScalingGroup", "AutoScalingGroupName", "asked", "DefaultCooldown", "10",
			"HealthCheckGracePeriod", "0")
		describe("<HealthCheckGracePeriod>0<", "<HealthCheckType>ELB<", "<DefaultCooldown>10<")
		if status, answer := w.asked("2011-01-01", "UpdateAutoScalingGroup", "AutoScalingGroupName", "asked",
			"PlacementGroup", "near"); status == http.StatusOK || !strings.Contains(answer, "PlacementGroup") {
			t.Errorf("a placement group is answered with %s", answer)
		}
	})
	t.Run("OfATargetGroup", func(t *testing.T) {
		w := newGroupWorld(t, 0, nil)
		balancing := func(action string, fields ...string) string {
			t.Helper()
			status, answer := w.asked("2015-12-01", action, fields...)
			if status != http.StatusOK {
				t.Fatalf("%s: %s", action, answer)
			}
			return answer
		}
		made := balancing("CreateTargetGroup", "Name", "web", "HealthCheckPath", "/ready", "Matcher.HttpCode",
			"200-299",
			"Tags.member.1.Key", "team", "Tags.member.1.Value", "shop")
		_, rest, _ := strings.Cut(made, "<TargetGroupArn>")
		arn, _, _ := strings.Cut(rest, "<")
		balancing("ModifyTargetGroup", "TargetGroupArn", arn, "HealthCheckIntervalSeconds", "7")
		got := balancing("DescribeTargetGroups", "Names.member.1", "web")
		for _, want := range []string{"<HealthCheckPath>/ready<", "<HttpCode>200-299<",
			"<HealthCheckIntervalSeconds>7<",
			"<HealthyThresholdCount>5<", "<ProtocolVersion>HTTP1<", "<HealthCheckPort>traffic-port<"} {
			if !strings.Contains(got, want) {
				t.Errorf("the target group has no %s: %s", want, got)
			}
		}
		balancing("ModifyTargetGroupAttributes", "TargetGroupArn", arn, "Attributes.member.1.Key",
			"stickiness.enabled", "Attributes.member.1.Value", "true")
		got = balancing("DescribeTargetGroupAttributes", "TargetGroupArn", arn)
		for _, want := range []string{"<Key>stickiness.enabled</Key><Value>true<",
			"<Key>deregistration_delay.timeout_seconds</Key><Value>300<"} {
			if !strings.Contains(got, want) {
				t.Errorf("the attributes have no %s: %s", want, got)
			}
		}
		balancing("AddTags", "ResourceArns.member.1", arn, "Tags.member.1.Key", "stage", "Tags.member.1.Value", "test")
		balancing("RemoveTags", "ResourceArns.member.1", arn, "TagKeys.member.1", "team")
		if got := balancing("DescribeTags", "ResourceArns.member.1", arn); !strings.Contains(got, "<Key>stage<") ||
			strings.Contains(got, "<Key>team<") {
			t.Errorf("the tags are %s", got)
		}
	})
}

// Terraform changes the tags of a launch template in place, for example when its default tags
// change.
func TestTagsOfALaunchTemplate(t *testing.T) {
	w := newGroupWorld(t, 0, nil)
	ask := func(action string, fields ...string) (int, string) { return w.asked("2016-11-15", action, fields...) }
	_, made := ask("CreateLaunchTemplate", "LaunchTemplateName", "web", "LaunchTemplateData.ImageId", "ami-1",
		"TagSpecification.1.ResourceType", "launch-template", "TagSpecification.1.Tag.1.Key", "team",
		"TagSpecification.1.Tag.1.Value", "shop")
	_, rest, _ := strings.Cut(made, "<launchTemplateId>")
	id, _, _ := strings.Cut(rest, "<")
	tags := func() string {
		_, answer := ask("DescribeLaunchTemplates", "LaunchTemplateId.1", id)
		_, rest, _ := strings.Cut(answer, "<tagSet>")
		set, _, _ := strings.Cut(rest, "</tagSet>")
		return set
	}
	const team, stage = "<item><key>team</key><value>shop</value></item>",
		"<item><key>stage</key><value>test</value></item>"
	for _, step := range []struct {
		fields []string
		want   string
	}{
		{[]string{"CreateTags", "ResourceId.1", id, "Tag.1.Key", "stage", "Tag.1.Value", "test"}, stage + team},
		{[]string{"DeleteTags", "ResourceId.1", id, "Tag.1.Key", "team", "Tag.1.Value", "other"}, stage + team},
		{[]string{"DeleteTags", "ResourceId.1", id, "Tag.1.Key", "team"}, stage},
	} {
		if status, answer := ask(step.fields[0], step.fields[1:]...); status != http.StatusOK ||
			!strings.Contains(answer, "<return>true<") {
			t.Fatalf("%v: %s", step.fields, answer)
		}
		expect(t, "tags", tags(), step.want)
	}
	status, answer := ask("CreateTags", "ResourceId.1", id, "ResourceId.2", "lt-none", "Tag.1.Key", "a", "Tag.1.Value",
		"b")
	if status == http.StatusOK || !strings.Contains(answer, "InvalidLaunchTemplateId.NotFound") || tags() != stage {
		t.Errorf("a template that does not exist is answered with %s", answer)
	}
}
