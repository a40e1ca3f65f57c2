package sim_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/shared/sim/autoscaling"
)

// asked sends a form, as the AWS CLI does, and returns the status and the text of the answer.
func (w *groupWorld) asked(version, action string, fields ...string) (status int, answer string) {
	w.t.Helper()
	form := url.Values{"Action": {action}, "Version": {version}}
	for n := 0; n < len(fields); n += 2 {
		form.Set(fields[n], fields[n+1])
	}
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 any")
	got := httptest.NewRecorder()
	w.ServeProtocols(http.NotFoundHandler()).ServeHTTP(got, r)
	body, err := io.ReadAll(got.Body)
	w.do(err)
	return got.Code, string(body)
}

func (w *groupWorld) scaling(action string, fields ...string) string {
	w.t.Helper()
	status, answer := w.asked("2011-01-01", action, fields...)
	if status != http.StatusOK {
		w.t.Fatalf("%s: %s", action, answer)
	}
	return answer
}

// made creates a launch template with user data, and a group "asked" that launches from it.
func (w *groupWorld) made(userData string, fields ...string) {
	w.t.Helper()
	status, answer := w.asked("2016-11-15", "CreateLaunchTemplate", "LaunchTemplateName", "asked",
		"LaunchTemplateData.ImageId", "ami-7",
		"LaunchTemplateData.InstanceType", "t3.medium", "LaunchTemplateData.UserData",
		base64.StdEncoding.EncodeToString([]byte(userData)))
	if status != http.StatusOK {
		w.t.Fatal(answer)
	}
	w.scaling("CreateAutoScalingGroup", append([]string{
		"AutoScalingGroupName", "asked", "MinSize", "0", "MaxSize", "6", "LaunchTemplate.LaunchTemplateName", "asked",
		"AvailabilityZones.member.1", "eu-west-1a", "AvailabilityZones.member.2", "eu-west-1b",
	}, fields...)...)
}

func TestGroupsJoinTheClusterOfTheirUserData(t *testing.T) {
	for _, c := range []struct {
		name, userData string
		want           int
	}{
		{"Shell", "#!/bin/bash\necho ECS_CLUSTER=c >> /etc/ecs/ecs.config\n", 1},
		{"Quoted",
			"#!/bin/bash\ncat <<'EOF' >> /etc/ecs/ecs.config\nECS_CLUSTER=\"c\"\nECS_INSTANCE_ATTRIBUTES={\"rack\":\"7\"}\nEOF\n", 1},
		{"Bottlerocket", "[settings.ecs]\ncluster = \"c\"\n", 1},
		{"AnotherCluster", "echo ECS_CLUSTER=elsewhere >> /etc/ecs/ecs.config", 0},
		{"AttributesThatAreNoJSON", "ECS_CLUSTER=c\nECS_INSTANCE_ATTRIBUTES={rack:7}\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newGroupWorld(t, 0, nil)
			w.made(c.userData, "DesiredCapacity", "1")
			w.clock.advance(launch)
			w.want("registered", w.registered(), c.want)
			if c.want == 0 {
				return
			}
			ids, err := w.ECS.ListInstances(t.Context(), "c")
			w.do(err)
			got, err := w.ECS.DescribeInstances(t.Context(), "c", ids)
			w.do(err)
			a := got[0].Attributes
			if a["ecs.instance-type"] != "t3.medium" || a["ecs.ami-id"] != "ami-7" ||
				a["ecs.availability-zone"] != "eu-west-1a" || c.name == "Quoted" && a["rack"] != "7" {
				t.Errorf("it registered with %v", a)
			}
		})
	}
}

func TestGroupTagsMakeLaunchesFail(t *testing.T) {
	tagged := func(t *testing.T, key, value string) *groupWorld {
		w := newGroupWorld(t, 0, nil)
		w.made("ECS_CLUSTER=c", "DesiredCapacity", "2", "Tags.member.1.Key", "berth-fleet:"+key, "Tags.member.1.Value",
			value)
		return w
	}
	untag := func(w *groupWorld, key string) {
		w.scaling("DeleteTags", "Tags.member.1.ResourceId", "asked", "Tags.member.1.Key", "berth-fleet:"+key)
	}
	t.Run("Failure", func(t *testing.T) {
		w := tagged(t, "launch-failure", "VcpuLimitExceeded")
		w.clock.advance(10 * launch)
		w.want("registered", w.registered(), 0)
		failed, err := w.Groups.FailedLaunches(t.Context(), "asked", time.Time{})
		w.do(err)
		if len(failed) == 0 || failed[0].Code != "VcpuLimitExceeded" || failed[0].Zone != "eu-west-1a" {
			t.Fatalf("%+v", failed)
		}
		if told := w.scaling("DescribeScalingActivities", "AutoScalingGroupName", "asked"); !strings.Contains(told,
			"<StatusCode>Failed</StatusCode>") {
			t.Error(told)
		}
		untag(w, "launch-failure")
		w.clock.advance(retry + launch)
		w.want("registered at last", w.registered(), 2)
	})
	t.Run("InOneZoneThenRebalanced", func(t *testing.T) {
		w := tagged(t, "launch-failure", "InsufficientInstanceCapacity@eu-west-1b")
		w.clock.advance(launch)
		w.want("registered", w.registered(), 2)
		w.want("in the zone that has room", len(w.zones()["eu-west-1a"]), 2)
		untag(w, "launch-failure")
		w.clock.advance(2 * (retry + launch))
		w.want("registered after it evened out", w.registered(), 2)
		w.want("in the other zone", len(w.zones()["eu-west-1b"]), 1)
	})
	t.Run("Slow", func(t *testing.T) {
		w := tagged(t, "launch-seconds", "300")
		w.clock.advance(launch + 299*time.Second)
		w.want("registered", w.registered(), 0)
		w.clock.advance(time.Second)
		w.want("registered", w.registered(), 2)
	})
	t.Run("WrongZone", func(t *testing.T) {
		w := tagged(t, "launch-zone", "eu-west-1f")
		w.clock.advance(10 * launch)
		w.want("in the wrong zone", len(w.zones()["eu-west-1f"]), 2)
	})
	t.Run("NeverRegister", func(t *testing.T) {
		w := tagged(t, "launched-machines", "never-register")
		w.clock.advance(10 * launch)
		w.want("registered", w.registered(), 0)
		w.want("in service", strings.Count(w.scaling("DescribeAutoScalingGroups", "AutoScalingGroupNames.member.1",
			"asked"), "InService"), 2)
	})
	t.Run("NeverHealthy", func(t *testing.T) {
		w := tagged(t, "launched-machines", "never-healthy")
		w.clock.advance(launch)
		ids, err := w.ECS.ListInstances(t.Context(), "c")
		w.do(err)
		got, err := w.ECS.DescribeInstances(t.Context(), "c", ids)
		w.do(err)
		if len(got) != 2 || got[0].AgentConnected {
			t.Errorf("%+v", got)
		}
	})
	t.Run("Misspelt", func(t *testing.T) {
		w := newGroupWorld(t, 0, nil)
		for _, c := range [][2]string{{"launch-failure", "oops"}, {"launch-seconds", "soon"},
			{"launched-machines", "well"}, {"slow", "1"}, {"launch-zone", ""}} {
			status, answer := w.asked("2011-01-01", "CreateOrUpdateTags", "Tags.member.1.ResourceId", "g",
				"Tags.member.1.Key", "berth-fleet:"+c[0], "Tags.member.1.Value", c[1])
			if status != http.StatusBadRequest || !strings.Contains(answer, "berth-fleet:"+c[0]) {
				t.Errorf("%s=%s: %d %s", c[0], c[1], status, answer)
			}
		}
	})
}

// zones returns the instances of the group "asked" by zone.
func (w *groupWorld) zones() map[string][]string {
	w.t.Helper()
	got, err := w.Groups.DescribeGroups(w.t.Context(), []string{"asked"})
	w.do(err)
	zones := map[string][]string{}
	for _, i := range got[0].Instances {
		zones[i.Zone] = append(zones[i.Zone], i.ID)
	}
	return zones
}

func TestZonesAreRebalancedUnlessProtectedOrSuspended(t *testing.T) {
	full := true
	w := newGroupWorld(t, 0, func(_ string, _ int64) autoscaling.LaunchFault {
		if full {
			return autoscaling.LaunchFault{Reason: "full", In: "eu-west-1b"}
		}
		return autoscaling.LaunchFault{}
	})
	w.made("ECS_CLUSTER=c", "DesiredCapacity", "3", "NewInstancesProtectedFromScaleIn", "true")
	w.clock.advance(launch)
	full = false
	w.clock.advance(10 * launch)
	w.want("where all are protected", len(w.zones()["eu-west-1a"]), 3)
	w.scaling("SuspendProcesses", "AutoScalingGroupName", "asked", "ScalingProcesses.member.1", "AZRebalance")
	w.do(w.Groups.SetInstanceProtection(t.Context(), "asked", w.zones()["eu-west-1a"][:1], false))
	w.clock.advance(10 * launch)
	w.want("while it is suspended", len(w.zones()["eu-west-1a"]), 3)
	w.scaling("ResumeProcesses", "AutoScalingGroupName", "asked", "ScalingProcesses.member.1", "AZRebalance")
	w.clock.advance(10 * launch)
	w.want("when it is resumed", len(w.zones()["eu-west-1a"]), 2)
	w.want("elsewhere", len(w.zones()["eu-west-1b"]), 1)
}

func TestGroupCallsAreRefused(t *testing.T) {
	w := newGroupWorld(t, 0, nil)
	w.made("ECS_CLUSTER=c", "DesiredCapacity", "1")
	for _, step := range [][]string{
		{"CreateLaunchTemplate", "LaunchTemplateData.IamInstanceProfile.Name", "none"},
		{"CreateLaunchTemplateVersion", "LaunchTemplateData.IamInstanceProfile.Arn",
			"arn:aws:iam::1:instance-profile/a"},
	} {
		if status, answer := w.asked("2016-11-15", step[0], append(step[1:3:3], "LaunchTemplateName", "profile",
			"LaunchTemplateData.ImageId", "ami-7", "LaunchTemplateData.InstanceType",
			"t3.medium")...); status != http.StatusOK {
			t.Fatal(answer)
		}
	}
	ids := []string{"AutoScalingGroupName", "asked", "ProtectedFromScaleIn", "true"}
	for n := range 51 {
		ids = append(ids, "InstanceIds.member."+strconv.Itoa(n+1), "i-1")
	}
	group := []string{"AutoScalingGroupName", "new", "MinSize", "0", "MaxSize", "1"}
	zone := append(group[:len(group):len(group)], "AvailabilityZones.member.1", "eu-west-1a")
	for _, c := range []struct {
		name, version, action string
		fields                []string
		want                  string
	}{
		{"FiftyOneInstances", "2011-01-01", "SetInstanceProtection", ids, "ValidationError"},
		{"AStranger", "2011-01-01", "SetInstanceProtection", append(ids[:4:4], "InstanceIds.member.1", "i-1"),
			"is not part of Auto Scaling group asked"},
		{"NameTaken", "2011-01-01", "CreateAutoScalingGroup",
			append(zone[2:len(zone):len(zone)], "AutoScalingGroupName", "asked", "LaunchTemplate.LaunchTemplateName",
				"asked"), "AlreadyExists"},
		{"NoTemplate", "2011-01-01", "CreateAutoScalingGroup", zone, "LaunchTemplate"},
		{"NoZone", "2011-01-01", "CreateAutoScalingGroup",
			append(group[:len(group):len(group)], "LaunchTemplate.LaunchTemplateName", "asked"),
			"At least one Availability Zone"},
		{"NoSuchZone", "2011-01-01", "CreateAutoScalingGroup",
			append(group[:len(group):len(group)], "AvailabilityZones.member.1", "mars-1a"), "mars-1a"},
		{"NoSuchTemplate", "2011-01-01", "CreateAutoScalingGroup",
			append(zone[:len(zone):len(zone)], "LaunchTemplate.LaunchTemplateName", "none"),
			"valid fully-formed launch template"},
		{"NoSuchProfile", "2011-01-01", "CreateAutoScalingGroup",
			append(zone[:len(zone):len(zone)], "LaunchTemplate.LaunchTemplateName", "profile"),
			"Value (none) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"},
		{"NoSuchProfileARN", "2011-01-01", "UpdateAutoScalingGroup",
			[]string{"AutoScalingGroupName", "asked", "LaunchTemplate.LaunchTemplateName", "profile",
				"LaunchTemplate.Version", "2"}, "iamInstanceProfile.arn is invalid. Invalid IAM Instance Profile ARN"},
		{"UnknownParameter", "2011-01-01", "CreateAutoScalingGroup",
			append(zone[:len(zone):len(zone)], "PlacementGroup", "x"), "PlacementGroup"},
		{"Sizes", "2011-01-01", "UpdateAutoScalingGroup", []string{"AutoScalingGroupName", "asked", "MinSize", "7"},
			"Max bound"},
		{"Desired", "2011-01-01", "UpdateAutoScalingGroup",
			[]string{"AutoScalingGroupName", "asked", "DesiredCapacity", "7"}, "Desired capacity:7"},
		{"InUse", "2011-01-01", "DeleteAutoScalingGroup", []string{"AutoScalingGroupName", "asked"}, "ResourceInUse"},
		{"LaunchHook", "2011-01-01", "PutLifecycleHook",
			[]string{"AutoScalingGroupName", "asked", "LifecycleHookName", "h", "LifecycleTransition",
				"autoscaling:EC2_INSTANCE_LAUNCHING"}, "EC2_INSTANCE_LAUNCHING"},
		{"StepPolicy", "2011-01-01", "PutScalingPolicy",
			[]string{"AutoScalingGroupName", "asked", "PolicyName", "p", "PolicyType", "StepScaling"}, "StepScaling"},
		{"UnknownOperation", "2011-01-01", "PutWarmPool", nil, "PutWarmPool"},
		{"UserData", "2016-11-15", "CreateLaunchTemplate",
			[]string{"LaunchTemplateName", "bad", "LaunchTemplateData.UserData", "#!/bin/sh"},
			"InvalidUserData.Malformed"},
		{"UnknownData", "2016-11-15", "CreateLaunchTemplate",
			[]string{"LaunchTemplateName", "bad", "LaunchTemplateData.Colour", "red"}, "UnknownParameter"},
		{"NoData", "2016-11-15", "CreateLaunchTemplate", []string{"LaunchTemplateName", "bad"}, "MissingParameter"},
		{"TemplateNameTaken", "2016-11-15", "CreateLaunchTemplate",
			[]string{"LaunchTemplateName", "asked", "LaunchTemplateData.ImageId", "ami-1"}, "AlreadyExistsException"},
		{"NoVersion", "2016-11-15", "DescribeLaunchTemplateVersions",
			[]string{"LaunchTemplateName", "asked", "LaunchTemplateVersion.1", "9"}, "VersionNotFound"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, answer := w.asked(c.version, c.action, c.fields...)
			if status != http.StatusBadRequest || !strings.Contains(answer, c.want) {
				t.Errorf("%d %s", status, answer)
			}
		})
	}
}

func TestMetricCallsAreRefused(t *testing.T) {
	w := newGroupWorld(t, 0, nil)
	alarm := `"AlarmName": "a", "Namespace": "n", "MetricName": "m", "Statistic": "Sum", "Threshold": 1, "ComparisonOperator": "GreaterThanThreshold"`
	for _, c := range []struct{ name, operation, in, want string }{
		{"NoData", "PutMetricData", `{"Namespace": "n", "MetricData": []}`, "InvalidParameterValue"},
		{"NoValue", "PutMetricData", `{"Namespace": "n", "MetricData": [{"MetricName": "m"}]}`,
			"InvalidParameterCombination"},
		{"TooLargeANumber", "PutMetricData", `{"Namespace": "n", "MetricData": [{"MetricName": "m", "Value": 1e999}]}`,
			"InvalidParameterValue"},
		{"LooksBackTooFar", "PutMetricAlarm", `{"Period": 60, "EvaluationPeriods": 1441, ` + alarm + `}`,
			"more than a day"},
		{"Actions", "PutMetricAlarm", `{"Period": 60, "EvaluationPeriods": 1, "AlarmActions": [], ` + alarm + `}`,
			"AlarmActions"},
		{"SomeDatapoints", "PutMetricAlarm",
			`{"Period": 60, "EvaluationPeriods": 3, "DatapointsToAlarm": 2, ` + alarm + `}`, "DatapointsToAlarm"},
		{"NoJSON", "PutMetricAlarm", `{`, "SerializationException"},
		{"UnknownOperation", "PutDashboard", `{}`, "PutDashboard"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", strings.NewReader(c.in))
			r.Header.Set("Content-Type", "application/x-amz-json-1.0")
			r.Header.Set("X-Amz-Target", "GraniteServiceVersion20100801."+c.operation)
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 any")
			got := httptest.NewRecorder()
			w.ServeProtocols(http.NotFoundHandler()).ServeHTTP(got, r)
			if got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), c.want) {
				t.Errorf("%d %s", got.Code, got.Body)
			}
		})
	}
}

// The account has Auto Scaling's default quotas, and counts its groups.
func TestAccountLimits(t *testing.T) {
	w := newGroupWorld(t, 0, nil)
	answer := w.scaling("DescribeAccountLimits")
	for _, want := range []string{"<MaxNumberOfAutoScalingGroups>500<", "<NumberOfAutoScalingGroups>1<",
		"<MaxNumberOfLaunchConfigurations>200<", "<NumberOfLaunchConfigurations>0<"} {
		if !strings.Contains(answer, want) {
			t.Errorf("the answer lacks %s: %s", want, answer)
		}
	}
	if status, answer := w.asked("2011-01-01", "DescribeAccountLimits", "Extra", "1"); status == http.StatusOK {
		t.Errorf("an unknown parameter is accepted: %s", answer)
	}
}
