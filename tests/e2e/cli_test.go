package e2e

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"
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
