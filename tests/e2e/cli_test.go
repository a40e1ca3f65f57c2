package e2e

import (
	"bytes"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"berth/tests/process"
)

// TestNodeGroupByTheAWSCLI updates the nodes of a group with the real AWS CLI, on the endpoint of
// `berth up`: update-nodegroup-version, then describe-update until it is Successful. Time passes
// only between the calls.
func TestNodeGroupByTheAWSCLI(t *testing.T) {
	needsAWS(t)
	v := newVirtual(t)
	server := httptest.NewServer(v.api)
	t.Cleanup(server.Close)
	s := newShell(t, 2*time.Minute)
	s.env = append(s.env, "AWS_ENDPOINT_URL="+server.URL, "AWS_ACCESS_KEY_ID=any", "AWS_SECRET_ACCESS_KEY=any",
		"AWS_DEFAULT_REGION=us-east-1")
	// after runs a command every twenty minutes until it prints the wanted text.
	after := func(command, want string) {
		t.Helper()
		got := ""
		for range 6 {
			if got = s.runCommand(command); strings.Contains(got, want) {
				return
			}
			v.Loop.RunUntil(v.Loop.Now().Add(20 * time.Minute))
		}
		t.Fatalf("%s: %s, want %s", command, got, want)
	}
	s.runCommand(`aws ecs create-cluster --cluster-name default`)
	data := `{"ImageId":"ami-1","InstanceType":"t3.medium","UserData":"'$(printf '#!/bin/bash\necho ECS_CLUSTER=default >> /etc/ecs/ecs.config\n' | base64 | tr -d '\n')'"}`
	s.runCommand(`aws ec2 create-launch-template --launch-template-name nodes --launch-template-data '` + data + `'`)
	s.runCommand(`aws autoscaling create-auto-scaling-group --auto-scaling-group-name nodes --launch-template LaunchTemplateName=nodes,Version=1 \
		--min-size 1 --max-size 4 --desired-capacity 2 --availability-zones us-east-1a us-east-1b \
		--tags Key=berth:installation,Value=berth,PropagateAtLaunch=false`)
	after(`aws ecs list-container-instances --query 'length(containerInstanceArns)'`, "2")
	s.runCommand(`aws eks create-nodegroup --cluster-name default --nodegroup-name web --subnets subnet-1 --node-role arn:aws:iam::123456789012:role/nodes \
		--tags berth:auto-scaling-group=nodes`)
	after(`aws eks describe-nodegroup --cluster-name default --nodegroup-name web --query nodegroup.status`, "ACTIVE")
	id := s.runCommand(`aws eks update-nodegroup-version --cluster-name default --nodegroup-name web --release-version ami-2 --query update.id --output text`)
	after(`aws eks describe-update --name default --update-id `+id+` --nodegroup-name web --query update.status`,
		"Successful")
	after(`aws ec2 describe-launch-template-versions --launch-template-name nodes --versions '$Latest' --query 'LaunchTemplateVersions[0].LaunchTemplateData.ImageId'`, "ami-2")
	after(`aws autoscaling describe-auto-scaling-groups --query 'AutoScalingGroups[0].[DesiredCapacity, length(Instances), LaunchTemplate.Version]' --output text`, "2\t2\t2")
	after(`aws ecs describe-container-instances --container-instances $(aws ecs list-container-instances --query containerInstanceArns --output text) \
		--query "length(containerInstances[?attributes[?name=='ecs.ami-id' && value=='ami-2']])"`, "2")
}

// The commands that berth status prints for a capacity provider whose group is gone take it out of
// the cluster and delete it.
func TestAProviderWithoutItsGroupIsRemovedByTheAWSCLI(t *testing.T) {
	needsAWS(t)
	berth := buildBerth(t)
	var errs bytes.Buffer // managed scaling says that the group is gone
	endpoint := ""
	for in := process.Start(t, exec.Command(berth, "up", "--listen", "127.0.0.1:0", "--nodes", "0", "--speed", "60"),
		&errs); endpoint == "" && in.Scan(); {
		if at := strings.Index(in.Text(), "http://"); at >= 0 {
			endpoint = in.Text()[at:]
		}
	}
	s := newShell(t, time.Minute)
	s.env = append(s.env, "AWS_ENDPOINT_URL="+endpoint, "AWS_ACCESS_KEY_ID=any", "AWS_SECRET_ACCESS_KEY=any",
		"AWS_DEFAULT_REGION=us-east-1")
	after := func(command string) string { return s.runCommand("sleep 2; " + command) } // 2 minutes of Berth's clock
	s.runCommand(`aws ecs register-task-definition --family web --container-definitions '[{"name":"web","image":"nginx","memory":64}]'`)
	s.runCommand(`aws ec2 create-launch-template --launch-template-name nodes --launch-template-data '{"ImageId":"ami-1","InstanceType":"t3.medium"}'`)
	for _, name := range []string{"old", "new"} {
		s.runCommand(`aws autoscaling create-auto-scaling-group --auto-scaling-group-name ` + name +
			` --launch-template LaunchTemplateName=nodes,Version=1 --min-size 0 --max-size 4 --availability-zones us-east-1a ` +
			`--tags Key=berth:installation,Value=berth,PropagateAtLaunch=false`)
		arn := s.runCommand(`aws autoscaling describe-auto-scaling-groups --auto-scaling-group-names ` + name +
			` --query 'AutoScalingGroups[0].AutoScalingGroupARN' --output text`)
		s.runCommand(`aws ecs create-capacity-provider --name ` + name + ` --auto-scaling-group-provider autoScalingGroupArn=` +
			arn + `,managedScaling={status=ENABLED},managedDraining=ENABLED`)
	}
	after(`aws ecs put-cluster-capacity-providers --cluster default --capacity-providers old new ` +
		`--default-capacity-provider-strategy capacityProvider=old,weight=1 capacityProvider=new,weight=1`)
	s.runCommand(`aws ecs create-service --service-name web --task-definition web --desired-count 1 ` +
		`--capacity-provider-strategy capacityProvider=old,weight=1`)
	after(`aws autoscaling delete-auto-scaling-group --auto-scaling-group-name old --force-delete`)
	status := after(berth + ` status --endpoint ` + endpoint + ` || true`)
	ran := 0
	for line := range strings.Lines(status) {
		command := strings.TrimSpace(line)
		if strings.HasPrefix(command, "aws ecs update-service") || strings.HasPrefix(command, "aws ecs put-cluster") ||
			strings.HasPrefix(command, "aws ecs delete-capacity") {
			after(command)
			ran++
		}
	}
	if ran != 3 {
		t.Errorf("%d commands ran of\n%s", ran, status)
	}
	if got := after(berth + ` status --endpoint ` + endpoint + ` || true`); strings.Contains(got, "provider old") {
		t.Errorf("after the commands:\n%s", got)
	}
	if got := s.runCommand(`aws ecs describe-capacity-providers --capacity-providers old ` +
		`--query 'capacityProviders[0].status' --output text`); got != "INACTIVE" {
		t.Errorf("capacity provider old is %s", got)
	}
}
