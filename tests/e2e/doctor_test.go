package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	asgtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"berth/cmd/berth/client"
	"berth/cmd/berth/doctor"
	"berth/cmd/berth/doctor/account"
	"berth/cmd/berth/installation"
	"berth/shared/awsapi"
	"berth/shared/handler"
	"berth/tests/cloud"
	"berth/tests/ministack"
)

// A clinic is an installation with a cluster, a capacity provider and its group, in which faults
// are planted.
type clinic struct {
	*capacityScenario
	local *local
	env   []string // of `berth doctor`
	// hasCLI means that the AWS CLI is there to run remedies with.
	hasCLI bool
}

// A plantedFault is one thing that is wrong, and what `berth doctor` must say of it.
type plantedFault struct {
	name, check, value, remedy string
	plant, heal                func()
	// byRemedy means that the remedy is a whole command, which the test runs where the AWS CLI is.
	byRemedy bool
}

// examineFaults runs `berth doctor` on a healthy installation and with each of eleven faults, as a
// user who may read what its help lists, and no more.
func examineFaults(t *testing.T, l *local) {
	c := &clinic{capacityScenario: newCapacityScenario(t, l, "clinic"), local: l,
		hasCLI: exec.Command("aws", "--version").Run() == nil}
	c.env = c.environmentOf("doctor", account.Actions...)
	c.openGroup()
	c.expectHealthy("at first")
	for _, f := range append(c.stackFaults(), c.groupFaults()...) {
		t.Run(f.name, func(t *testing.T) {
			c.t = t
			f.plant()
			var code int
			var report *doctor.Report
			var found *doctor.Finding
			// A machine that never joins is one only after --join-within.
			c.await("the finding "+f.value, func() bool {
				code, report = c.examine()
				found = findingOf(report, f.check, f.value)
				return found != nil
			})
			switch {
			case code != 1 || found.Verdict != doctor.Fail:
				t.Errorf("exit code %d, want 1 and a failed %s that says %q:\n%s", code, f.check, f.value,
					reportText(report))
			case !strings.Contains(found.Command, f.remedy):
				t.Errorf("the remedy is %q, want %q in it", found.Command, f.remedy)
			}
			c.heal(f, found)
		})
		if t.Failed() {
			return
		}
	}
	t.Run("AClockOff", c.examineClock)
	t.Run("WithoutPermissions", c.examineAsVisitor)
	c.t = t
	c.expectHealthy("after all remedies")
	c.closeGroup()
}

// environmentOf makes a user who may do the actions, and returns the variables of its processes.
// Roles and instance profiles are the emulator's, ECS is the simulated one.
func (c *clinic) environmentOf(user string, actions ...string) []string {
	c.t.Helper()
	keys, err := c.local.CreateCaller(c.t.Context(), cloud.Caller(user), actions...)
	if err != nil {
		c.t.Fatal(err)
	}
	env := slices.DeleteFunc(c.local.ClientEnvironment(keys), func(v string) bool {
		return strings.HasPrefix(v, "AWS_ENDPOINT_URL_IAM=")
	})
	return append(newShell(c.t, time.Minute).env, append(env, "AWS_ENDPOINT_URL_ECS="+c.local.SimulatedAWS)...)
}

// callService calls a service of the emulator as the root user.
func (c *clinic) callService(service string, in cloud.Request) {
	c.t.Helper()
	if in.Path == "" {
		in.Path, in.Method = "/", http.MethodPost
	}
	if _, err := c.local.CallService(c.t.Context(), service, in); err != nil {
		c.t.Fatal(err)
	}
}

// callIAM calls an action of IAM.
func (c *clinic) callIAM(action string, fields ...string) {
	c.t.Helper()
	form := url.Values{"Version": {"2010-05-08"}}
	for n := 0; n < len(fields); n += 2 {
		form.Set(fields[n], fields[n+1])
	}
	c.callService("iam", cloud.Request{Body: "Action=" + action + "&" + form.Encode()})
}

// openGroup makes a cluster with a group of one machine. Version 1 of the launch template has no
// instance profile, version 2 is right, version 3 names another cluster.
func (c *clinic) openGroup() {
	ctx := c.t.Context()
	const trust = `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "sts:AssumeRole",
		"Principal": {"Service": "ec2.amazonaws.com"}}}`
	const agent = `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Resource": "*", "Action": ["ecs:Poll",
		"ecs:DiscoverPollEndpoint", "ecs:RegisterContainerInstance", "ecs:Submit*"]}}`
	c.callIAM("CreateRole", "RoleName", "node", "AssumeRolePolicyDocument", trust)
	c.callIAM("PutRolePolicy", "RoleName", "node", "PolicyName", "agent", "PolicyDocument", agent)
	c.callIAM("CreateInstanceProfile", "InstanceProfileName", "node")
	c.callIAM("AddRoleToInstanceProfile", "InstanceProfileName", "node", "RoleName", "node")
	// Auto Scaling wants the profile to exist, too: the simulated one asks the simulated IAM.
	profiles := iam.NewFromConfig(c.tier.SimulatedConfig())
	mustSucceed(profiles.CreateInstanceProfile(ctx,
		&iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("node")}))(&c.scenario)
	c.createGroup(1)
	elsewhere := base64.StdEncoding.EncodeToString([]byte("#!/bin/bash\necho ECS_CLUSTER=other >> /etc/ecs/ecs.config\n"))
	for _, userData := range []string{c.userData(), elsewhere} {
		mustSucceed(c.ec2.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
			LaunchTemplateName: &c.group, SourceVersion: aws.String("1"),
			LaunchTemplateData: &ec2types.RequestLaunchTemplateData{UserData: &userData,
				IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("node")}},
		}))(&c.scenario)
	}
	c.useVersion("2")
	made := c.createPlainProvider("clinic-provider")
	mustSucceed(c.api.PutClusterCapacityProviders(ctx, &ecs.PutClusterCapacityProvidersInput{Cluster: &c.cluster,
		CapacityProviders: []string{made}, DefaultCapacityProviderStrategy: []types.CapacityProviderStrategyItem{}}))(
		&c.scenario)
	c.await("a machine", func() bool { return len(c.instances()) == 1 })
}

// createPlainProvider makes a capacity provider that sizes nothing, and waits until Berth has
// checked its group.
func (c *clinic) createPlainProvider(name string) string {
	mustSucceed(c.api.CreateCapacityProvider(c.t.Context(), &ecs.CreateCapacityProviderInput{Name: &name,
		AutoScalingGroupProvider: &types.AutoScalingGroupProvider{
			AutoScalingGroupArn: c.describeGroup().AutoScalingGroupARN,
			ManagedScaling:      &types.ManagedScaling{Status: types.ManagedScalingStatusDisabled},
			ManagedDraining:     types.ManagedDrainingDisabled,
		}}))(&c.scenario)
	c.await("the check of its group", func() bool {
		found := mustSucceed(c.api.DescribeCapacityProviders(c.t.Context(),
			&ecs.DescribeCapacityProvidersInput{CapacityProviders: []string{name}}))(&c.scenario)
		return found.CapacityProviders[0].UpdateStatus == types.CapacityProviderUpdateStatusCreateComplete
	})
	return name
}

// closeGroup removes the group and the cluster, so that other scenarios find none of it.
func (c *clinic) closeGroup() {
	ctx := c.t.Context()
	mustSucceed(c.api.PutClusterCapacityProviders(ctx, &ecs.PutClusterCapacityProvidersInput{Cluster: &c.cluster,
		CapacityProviders:               []string{},
		DefaultCapacityProviderStrategy: []types.CapacityProviderStrategyItem{}}))(&c.scenario)
	mustSucceed(c.api.DeleteCapacityProvider(ctx,
		&ecs.DeleteCapacityProviderInput{CapacityProvider: aws.String("clinic-provider")}))(&c.scenario)
	mustSucceed(c.groups.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{
		AutoScalingGroupName: &c.group, ForceDelete: aws.Bool(true)}))(&c.scenario)
	profiles := iam.NewFromConfig(c.tier.SimulatedConfig())
	mustSucceed(profiles.DeleteInstanceProfile(ctx,
		&iam.DeleteInstanceProfileInput{InstanceProfileName: aws.String("node")}))(&c.scenario)
	c.await("no machine", func() bool { return len(c.instances()) == 0 })
	mustSucceed(c.api.DeleteCluster(ctx, &ecs.DeleteClusterInput{Cluster: &c.cluster}))(&c.scenario)
}

func (c *clinic) useVersion(version string) {
	c.t.Helper()
	mustSucceed(c.groups.UpdateAutoScalingGroup(c.t.Context(), &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: &c.group, LaunchTemplate: &asgtypes.LaunchTemplateSpecification{
			LaunchTemplateName: &c.group, Version: &version}}))(&c.scenario)
}

// setStandardQuota sets the quota of vCPUs of On-Demand Standard instances.
func (c *clinic) setStandardQuota(value float64) {
	c.t.Helper()
	if err := c.local.SetQuota("ec2", "L-1216C47A", value); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clinic) resize(desired int32) {
	c.t.Helper()
	mustSucceed(c.groups.SetDesiredCapacity(c.t.Context(), &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: &c.group, DesiredCapacity: &desired}))(&c.scenario)
}

// tag sets a tag of the group, or removes it if the value is empty.
func (c *clinic) tag(key, value string) {
	c.t.Helper()
	tags := []asgtypes.Tag{{Key: &key, Value: &value, ResourceId: &c.group,
		ResourceType: aws.String("auto-scaling-group"), PropagateAtLaunch: aws.Bool(false)}}
	if value != "" {
		mustSucceed(c.groups.CreateOrUpdateTags(c.t.Context(), &autoscaling.CreateOrUpdateTagsInput{Tags: tags}))(
			&c.scenario)
		return
	}
	mustSucceed(c.groups.DeleteTags(c.t.Context(), &autoscaling.DeleteTagsInput{Tags: tags}))(&c.scenario)
}

// examine runs `berth doctor` and returns its exit code and its report.
func (c *clinic) examine(more ...string) (code int, r *doctor.Report) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), builtOptions(c.t).Berth,
		append([]string{"doctor", "--stack", cloud.StackName,
			"--join-within", "1s", "--json"}, more...)...)
	cmd.Env = c.env
	out, err := cmd.Output()
	if json.Unmarshal(out, &r) != nil {
		c.t.Fatalf("berth doctor: %v: %s", err, out)
	}
	return cmd.ProcessState.ExitCode(), r
}

func (c *clinic) expectHealthy(when string) {
	c.t.Helper()
	var code int
	var r *doctor.Report
	// A machine that has just been replaced, and its event, take a moment.
	c.local.Await(func() bool {
		code, r = c.examine()
		return code == 0 && r.Count(doctor.Unknown) == 0
	})
	if code != 0 || r.Count(doctor.Fail) > 0 || r.Count(doctor.Unknown) > 0 {
		c.t.Errorf("%s: exit code %d, want 0, and all checked:\n%s", when, code, reportText(r))
	}
}

// findingOf returns the finding of a check whose value contains the text.
func findingOf(r *doctor.Report, check, value string) *doctor.Finding {
	for _, c := range r.Checks {
		for i, f := range c.Findings {
			if c.Name == check && strings.Contains(f.Thing+": "+f.Value, value) {
				return &c.Findings[i]
			}
		}
	}
	return nil
}

func reportText(r *doctor.Report) string {
	var out strings.Builder
	_ = r.Print(&out)
	return out.String()
}

// heal removes a fault. If the remedy is a whole command and the AWS CLI is there, it mends the fault
// first.
func (c *clinic) heal(f plantedFault, found *doctor.Finding) {
	if c.hasCLI && f.byRemedy {
		s := newShell(c.t, time.Minute)
		s.env = append(c.env, "AWS_ACCESS_KEY_ID="+ministack.AccessKey, "AWS_SECRET_ACCESS_KEY="+ministack.SecretKey)
		s.runCommand(found.Command)
		c.await("the remedy of "+f.name, func() bool {
			_, report := c.examine()
			return findingOf(report, f.check, f.value) == nil
		})
	}
	f.heal()
}

// stackFaults are faults of the stack's resources.
func (c *clinic) stackFaults() []plantedFault {
	resources := c.local.Resources
	var restore func(context.Context) error
	switchRule := func(operation string) {
		c.callService("events", cloud.Request{Target: "AWSEvents." + operation,
			Body: `{"Name": "` + resources["AlarmEvents"] + `"}`})
	}
	switchMapping := func(enabled string) {
		c.callService("lambda", cloud.Request{Method: http.MethodPut, Body: `{"Enabled": ` + enabled + `}`,
			Path: "/2015-03-31/event-source-mappings/" + resources["DispatchFunctionState"]})
	}
	return []plantedFault{
		{name: "AMissingPermission", check: "permissions", value: "does not allow ec2:DescribeImages on *",
			remedy: "aws iam put-role-policy --role-name " + resources["NodeGroupUpgradeRole"],
			plant: func() {
				var err error
				if restore, err = c.local.RevokeAction(c.t.Context(), "node-group-upgrade",
					"ec2:DescribeImages"); err != nil {
					c.t.Fatal(err)
				}
			},
			heal: func() {
				if err := restore(c.t.Context()); err != nil {
					c.t.Fatal(err)
				}
			}, byRemedy: true},
		{name: "ARuleThatIsOff", check: "rules", value: "rule AlarmEvents: DISABLED",
			remedy: "aws events enable-rule --name " + resources["AlarmEvents"],
			plant:  func() { switchRule("DisableRule") }, heal: func() { switchRule("EnableRule") }, byRemedy: true},
		{name: "ADisabledStreamMapping", check: "event source mappings",
			value:  "DispatchFunctionState, from the table's stream to dispatch: Disabled",
			remedy: "aws lambda update-event-source-mapping --uuid " + resources["DispatchFunctionState"],
			plant:  func() { switchMapping("false") }, heal: func() { switchMapping("true") }, byRemedy: true},
		{name: "AFullDeadLetterQueue", check: "dead letters",
			value:  "ThrottlingDeadLetters: 2 messages of ThrottlingQueue, which throttling could not handle",
			remedy: "aws sqs start-message-move-task --source-arn arn:aws:sqs:",
			plant: func() {
				for range 2 {
					c.callService("sqs", cloud.Request{Target: "AmazonSQS.SendMessage",
						Body: `{"QueueUrl": "` + resources["ThrottlingDeadLetters"] + `", "MessageBody": "{}"}`})
				}
			},
			heal: func() {
				c.callService("sqs", cloud.Request{Target: "AmazonSQS.PurgeQueue",
					Body: `{"QueueUrl": "` + resources["ThrottlingDeadLetters"] + `"}`})
			}},
	}
}

// groupFaults are faults of the group and its machines.
func (c *clinic) groupFaults() []plantedFault {
	inService := func() (n int) {
		for _, i := range c.describeGroup().Instances {
			if i.LifecycleState == asgtypes.LifecycleStateInService {
				n++
			}
		}
		return n
	}
	return []plantedFault{
		{name: "AnUntaggedGroup", check: "groups", value: "it has no tag berth:installation",
			remedy: "aws autoscaling create-or-update-tags --tags ResourceId=clinic-group,",
			plant:  func() { c.tag(handler.OwnerTag, "") },
			heal:   func() { c.tag(handler.OwnerTag, installation.Name) }, byRemedy: true},
		{name: "NoInstanceRole", check: "groups",
			value:  "version 1 of launch template clinic-group has no instance profile",
			remedy: "--launch-template-data '{\"IamInstanceProfile\":", plant: func() { c.useVersion("1") },
			heal: func() { c.useVersion("2") }},
		{name: "AWrongCluster", check: "groups",
			value:  "version 3 of launch template clinic-group has ECS_CLUSTER=other",
			remedy: "aws ec2 create-launch-template-version --launch-template-name clinic-group --source-version 3",
			plant:  func() { c.useVersion("3") }, heal: func() { c.useVersion("2") }},
		{name: "AQuota", check: "quotas", value: "vCPUs of On-Demand Standard instances: ",
			remedy: "request-service-quota-increase --service-code ec2 --quota-code L-1216C47A --desired-value ",
			plant:  func() { c.setStandardQuota(2 * float64(inService())) },
			heal:   func() { c.setStandardQuota(1e6) }, byRemedy: true},
		{name: "ALaunchRefusedForAQuota", check: "quotas", value: "VcpuLimitExceeded",
			remedy: "request-service-quota-increase --service-code ec2 --quota-code L-1216C47A",
			plant: func() {
				c.tag("berth-fleet:launch-failure", "VcpuLimitExceeded")
				c.resize(2)
				c.await("a failed launch", func() bool {
					out := mustSucceed(c.groups.DescribeScalingActivities(c.t.Context(),
						&autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: &c.group}))(&c.scenario)
					return out.Activities[0].StatusCode == asgtypes.ScalingActivityStatusCodeFailed
				})
			},
			heal: func() {
				c.resize(1)
				c.tag("berth-fleet:launch-failure", "")
			}},
		{name: "AnAgentThatNeverJoins", check: "machines join", value: "in service, and in no cluster",
			remedy: "aws ec2 get-console-output --latest --output text --instance-id i-",
			plant: func() {
				c.tag("berth-fleet:launched-machines", "never-register")
				c.resize(2)
				c.await("the machine in service", func() bool { return inService() == 2 })
			},
			heal: func() {
				c.tag("berth-fleet:launched-machines", "")
				c.resize(0)
				c.await("no machine", func() bool { return len(c.describeGroup().Instances) == 0 })
				c.resize(1)
				c.await("a machine", func() bool { return len(c.instances()) == 1 })
			}},
	}
}

// examineClock reads the installation with a clock that is ten minutes behind. The emulator refuses
// the first call for that, and takes those after it, which are signed with its own time.
func (c *clinic) examineClock(t *testing.T) {
	behind := client.NewAWS(aws.Config{Region: ministack.Region, BaseEndpoint: &c.local.Endpoint,
		HTTPClient:  awsapi.HTTP{},
		Credentials: credentials.NewStaticCredentialsProvider(ministack.AccessKey, ministack.SecretKey, "")},
		func() time.Time { return time.Now().Add(-10 * time.Minute) })
	facts, err := account.Read(t.Context(), account.Options{Stack: cloud.StackName, AWS: behind,
		JoinWithin: time.Minute, CallTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r := doctor.Examine(facts)
	f := findingOf(r, "clock", "behind AWS's")
	if f == nil || f.Verdict != doctor.Fail || !strings.Contains(f.Value, "10m") ||
		f.Command != "sudo timedatectl set-ntp true" {
		t.Errorf("a clock ten minutes behind: %+v", r.Checks[0])
	}
	if found := findingOf(r, "permissions", ""); found != nil {
		t.Errorf("with the clock off, permissions: %+v", found)
	}
}

// examineAsVisitor runs `berth doctor` as a user who may read the stack and no more: everything
// else is not checked, and nothing is wrong.
func (c *clinic) examineAsVisitor(t *testing.T) {
	c.t = t
	visitor := *c
	visitor.env = c.environmentOf("visitor", "cloudformation:ListStackResources")
	code, r := visitor.examine()
	if code != 0 || r.Verdict != doctor.Unknown {
		t.Errorf("exit code %d, verdict %s, want 0 and unknown:\n%s", code, r.Verdict, reportText(r))
	}
	for check, action := range map[string]string{"functions": "lambda:GetFunctionConfiguration",
		"permissions": "iam:GetRole", "table": "dynamodb:DescribeTable", "rules": "events:DescribeRule",
		"event source mappings": "lambda:GetEventSourceMapping", "schedules": "scheduler:GetSchedule",
		"queues": "sqs:GetQueueAttributes", "dead letters": "sqs:GetQueueAttributes",
		"quotas": "lambda:GetAccountSettings",
	} {
		if findingOf(r, check, "not checked: needs "+action) == nil {
			t.Errorf("check %s does not say that it needs %s:\n%s", check, action, reportText(r))
		}
	}
}
