//go:build unix

package clients

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// runCLIStory uses the AWS CLI with all its ECS waiters.
func runCLIStory(t *testing.T, d *door) {
	if out, err := exec.Command("aws", "--version").CombinedOutput(); err != nil {
		t.Skipf("no aws CLI: %v %s", err, out)
	}
	p := &program{t, ".", append(d.environment(), "AWS_DEFAULT_OUTPUT=text"), 3 * time.Minute}
	aws := func(command string) string {
		t.Helper()
		return p.must("sh", "-c", "aws "+command)
	}
	wants := func(want, command string) {
		t.Helper()
		if got := aws(command); got != want {
			t.Errorf("aws %s: got %q, want %q", command, got, want)
		}
	}
	// Version 2 of the CLI has the exit code 254 for errors of the service, version 1 has 255.
	fails := func(want, command string) {
		t.Helper()
		if out, code := p.run("sh", "-c", "aws "+command); code != 254 && code != 255 || !strings.Contains(out, want) {
			t.Errorf("aws %s: exit code %d, want 254 or 255, and %q in %s", command, code, want, out)
		}
	}
	register := func(image string) {
		aws(`ecs register-task-definition --family cli --container-definitions \
			'[{"name": "web", "image": "` + image + `", "cpu": 64, "memory": 64, "portMappings": [{"containerPort": 80}]}]'`)
	}
	register("nginx:1")
	aws("ecs create-service --service-name cli --task-definition cli --desired-count 2 --tags key=team,value=shop")
	aws("ecs wait services-stable --services cli")
	wants("2\t2\tACTIVE",
		"ecs describe-services --services cli --query 'services[0].[runningCount, desiredCount, status]'")
	register("nginx:2")
	aws("ecs update-service --service cli --task-definition cli --desired-count 3")
	aws("ecs wait services-stable --services cli")
	wants("nginx:2", `ecs describe-tasks --tasks $(aws ecs list-tasks --service-name cli --query taskArns) \
		--query 'tasks[].containers[].image' | tr '\t' '\n' | sort -u`)
	// The last task may run before the decision that completes the deployment.
	p.reaches("1\tIN_PROGRESS\t3", "1\tCOMPLETED\t3", "aws", "ecs", "describe-services", "--services", "cli",
		"--query", "services[0].[length(deployments), deployments[0].rolloutState, runningCount]")

	task := aws("ecs run-task --task-definition cli --started-by cli --query 'tasks[0].taskArn'")
	aws("ecs wait tasks-running --tasks " + task)
	wants("RUNNING\tcli", "ecs describe-tasks --tasks "+task+" --query 'tasks[0].[lastStatus, startedBy]'")
	aws("ecs stop-task --reason enough --task " + task)
	aws("ecs wait tasks-stopped --tasks " + task)
	wants("UserInitiated\tenough", "ecs describe-tasks --tasks "+task+" --query 'tasks[0].[stopCode, stoppedReason]'")
	fails("Waiter TasksRunning failed", "ecs wait tasks-running --tasks "+task)

	agent := func(expression string) string {
		return "aws ecs run-task --task-definition cli --query '[tasks[].lastStatus, failures[].reason]' " +
			"--placement-constraints 'type=memberOf,expression=agentVersion " + expression + "'"
	}
	// On a busy machine placement may take longer than RunTask waits for it.
	p.reaches("PROVISIONING", "MemberOf placement constraint unsatisfied.", "sh", "-c", agent("< 1.90.0"))
	p.reaches("PROVISIONING", "PENDING", "sh", "-c", agent(">= 1.90.0"))

	arn := aws("ecs describe-services --services cli --query 'services[0].serviceArn'")
	aws("ecs tag-resource --tags key=stage,value=test --resource-arn " + arn)
	aws("ecs untag-resource --tag-keys team --resource-arn " + arn)
	wants("stage\ttest", "ecs list-tags-for-resource --query 'tags[].[key, value]' --resource-arn "+arn)
	wants("TAGS\tstage\ttest", "ecs describe-services --services cli --include TAGS --query 'services[0].{TAGS: tags}'")

	deployByHand(t, aws, wants, fails)
	if d.scaling == d.endpoint { // elsewhere the nodes are replaced in real time, which takes minutes
		makeNodes(aws, wants, fails)
	}

	fails("Waiter ServicesStable failed", "ecs wait services-stable --services nobody")
	fails("(ServiceNotFoundException)", "ecs update-service --service nobody --desired-count 1")
	fails("(ClusterNotFoundException)", "ecs list-services --cluster nowhere")
	fails("(ClientException)", "ecs describe-task-definition --task-definition nothing")

	aws("ecs update-service --service cli --desired-count 0")
	aws("ecs delete-service --service cli")
	aws("ecs wait services-inactive --services cli")
	aws("ecs deregister-task-definition --task-definition cli:1")
	wants("DELETE_IN_PROGRESS",
		"ecs delete-task-definitions --task-definitions cli:1 --query 'taskDefinitions[].status'")
}

// makeNodes creates a node group without an Auto Scaling group, updates it to the newest image and
// deletes it, with all waiters, and looks what is left.
func makeNodes(aws func(string) string, wants, fails func(want, command string)) {
	const of = " --cluster-name default --nodegroup-name made"
	wants("CREATING\tt3.large", "eks create-nodegroup --instance-types t3.large --subnets subnet-1 --node-role "+
		"arn:aws:iam::123456789012:role/nodes --scaling-config minSize=1,maxSize=2,desiredSize=1 --release-version "+
		"al2023-ami-ecs-hvm-2023.0.20260901-kernel-6.1-x86_64 --query 'nodegroup.[status, instanceTypes[0]]'"+of)
	aws("eks wait nodegroup-active" + of)
	name := aws("eks describe-nodegroup --query 'nodegroup.resources.autoScalingGroups[0].name'" + of)
	aws("eks update-nodegroup-version" + of)
	aws("eks wait nodegroup-active" + of)
	wants("al2023-ami-ecs-hvm-2023.0.20261015-kernel-6.1-x86_64",
		"eks describe-nodegroup --query nodegroup.releaseVersion"+of)
	wants("DELETING", "eks delete-nodegroup --query nodegroup.status"+of)
	aws("eks wait nodegroup-deleted" + of)
	wants("0", "autoscaling describe-auto-scaling-groups --query 'length(AutoScalingGroups)' "+
		"--auto-scaling-group-names "+name)
	fails("NotFoundException", "ec2 describe-launch-templates --launch-template-names "+name)
	fails("(NoSuchEntity)", "iam get-instance-profile --instance-profile-name "+name)
}

// deployByHand replaces one task set of a service by another, with the commands of the AWS CLI. It
// has no waiter for task sets, so each step waits by asking.
func deployByHand(t *testing.T, aws func(string) string, wants, fails func(want, command string)) {
	t.Helper()
	const of = " --cluster default --service by-cli "
	steady := func(id, counts string) {
		t.Helper()
		query := "ecs describe-task-sets" + of + "--task-sets " + id +
			" --query 'taskSets[0].[stabilityStatus, status, computedDesiredCount, runningCount, pendingCount]'"
		got := ""
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
			if got = aws(query); strings.HasPrefix(got, "STEADY_STATE") {
				break
			}
		}
		if got != "STEADY_STATE\t"+counts {
			t.Errorf("task set %s: got %q, want %q", id, got, "STEADY_STATE\t"+counts)
		}
	}
	wants("EXTERNAL\t2", "ecs create-service --service-name by-cli --deployment-controller type=EXTERNAL "+
		"--desired-count 2 --query 'service.[deploymentController.type, desiredCount]'")
	create := "ecs create-task-set" + of + "--task-definition "
	blue := aws(create + "cli:1 --external-id blue --scale value=100,unit=PERCENT --query taskSet.id")
	steady(blue, "ACTIVE\t2\t2\t0")
	wants("PRIMARY", "ecs update-service-primary-task-set"+of+"--primary-task-set "+blue+" --query taskSet.status")
	green := aws(create + "cli:2 --query taskSet.taskSetArn")
	wants("2\tSTABILIZING", "ecs update-task-set"+of+"--scale value=100,unit=PERCENT --task-set "+green+
		" --query 'taskSet.[computedDesiredCount, stabilityStatus]'")
	steady(green, "ACTIVE\t2\t2\t0")
	steady(blue, "PRIMARY\t2\t2\t0")
	aws("ecs update-service-primary-task-set" + of + "--primary-task-set " + green)
	fails("(InvalidParameterException)", "ecs delete-task-set"+of+"--task-set "+blue)
	tasks := aws("ecs list-tasks --query taskArns --started-by " + blue)
	wants("DRAINING", "ecs delete-task-set"+of+"--force --task-set "+blue+" --query taskSet.status")
	aws("ecs wait tasks-stopped --tasks " + tasks)
	steady(green, "PRIMARY\t2\t2\t0")
	fails("(InvalidParameterException)", create+"cli:2 --scale value=101,unit=PERCENT")
	aws("ecs delete-service --service by-cli --force")
	aws("ecs wait services-inactive --services by-cli")
}
