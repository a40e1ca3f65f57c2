//go:build unix

package clients

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// runBoto3Story runs testdata/boto3_story.py, and testdata/taskset_story.py, which deploys by hand.
// Their assertions are their own.
func runBoto3Story(t *testing.T, d *door) {
	p := &program{t, ".", d.environment(), 4 * time.Minute}
	for _, story := range []string{"boto3_story.py", "taskset_story.py"} {
		out := p.must(pythonTool(t, "python"), filepath.Join("testdata", story))
		if !strings.HasSuffix(out, "the end") {
			t.Errorf("%s ends with %q", story, out)
		}
	}
}

// runAnsibleStory plays testdata/ansible.yml, whose assertions are tasks.
func runAnsibleStory(t *testing.T, d *door) {
	play := pythonTool(t, "ansible-playbook")
	p := &program{t, ".", ansibleEnvironment(t, d), 5 * time.Minute}
	out := p.must(play, "-i", "localhost,", filepath.Join("testdata", "ansible.yml"))
	if !strings.Contains(out, "failed=0") || !strings.Contains(out, "unreachable=0") {
		t.Errorf("the play ends with %s", out)
	}
}

// ansibleEnvironment returns the variables with which Ansible calls Berth.
func ansibleEnvironment(t *testing.T, d *door) []string {
	t.Helper()
	return append(d.environment(), "ANSIBLE_PYTHON_INTERPRETER="+pythonTool(t, "python"), "ANSIBLE_NOCOLOR=1",
		"ANSIBLE_LOCALHOST_WARNING=False", "ANSIBLE_INVENTORY_UNPARSED_WARNING=False", "ANSIBLE_HOME="+t.TempDir(),
		"ANSIBLE_RETRY_FILES_ENABLED=False")
}

// runECSDeployStory deploys with ecs-deploy, as its README shows.
func runECSDeployStory(t *testing.T, d *door) {
	tool := pythonTool(t, "ecs")
	aws := &program{t, ".", d.environment(), 3 * time.Minute}
	p := &program{t, ".", d.environment(), 3 * time.Minute}
	aws.must("aws", "ecs", "register-task-definition", "--family", "ecs-deploy", "--container-definitions",
		`[{"name": "web", "image": "nginx:1", "cpu": 64, "memory": 64, "environment": [{"name": "A", "value": "1"}]}]`)
	aws.must("aws", "ecs", "create-service", "--service-name", "ecs-deploy", "--task-definition", "ecs-deploy",
		"--desired-count", "2")

	// says checks the exit code and a text of a command's output.
	says := func(want string, wantCode int, args ...string) {
		t.Helper()
		if out, code := p.run(tool, args...); code != wantCode || !strings.Contains(out, want) {
			t.Errorf("ecs %s: exit code %d, want %d, and %q in\n%s", strings.Join(args, " "), code, wantCode, want, out)
		}
	}
	query := func(want, text string, args ...string) {
		t.Helper()
		if got := aws.must("aws", append(append([]string{"ecs"}, args...), "--query", text, "--output",
			"text")...); got != want {
			t.Errorf("%s of %v is %q, want %q", text, args, got, want)
		}
	}
	says("Deployment successful", 0, "deploy", "default", "ecs-deploy", "--image", "web", "nginx:2", "-e", "web", "B",
		"2",
		"--timeout", "120")
	// The last task may run before the decision that completes the deployment.
	aws.reaches("1\tIN_PROGRESS\t2", "1\tCOMPLETED\t2", "aws", "ecs", "describe-services", "--services", "ecs-deploy",
		"--output", "text", "--query", "services[0].[length(deployments), deployments[0].rolloutState, runningCount]")
	query("nginx:2\t2", "taskDefinition.containerDefinitions[0].[image, length(environment)]",
		"describe-task-definition",
		"--task-definition", "ecs-deploy")
	query("INACTIVE", "taskDefinition.status", "describe-task-definition", "--task-definition", "ecs-deploy:1")
	says("Scaling successful", 0, "scale", "default", "ecs-deploy", "4", "--timeout", "120")
	query("4", "services[0].runningCount", "describe-services", "--services", "ecs-deploy")
	says("Successfully created revision", 0, "update", "ecs-deploy", "--image", "web", "nginx:3")
	says("Successfully started 2 instances of task: ecs-deploy:3", 0, "run", "default", "ecs-deploy", "2", "-c", "web",
		"echo hello")
	says("nginx:3", 0, "diff", "ecs-deploy", "2", "3")
	says("nginx:4", 0, "deploy", "default", "ecs-deploy", "--image", "web", "nginx:4", "--timeout", "120",
		"--no-deregister")
	says("Service not found.", 1, "deploy", "default", "nobody", "--timeout", "20")
	says("Cluster not found.", 1, "scale", "nowhere", "ecs-deploy", "1")
	says("Scaling successful", 0, "scale", "default", "ecs-deploy", "0", "--timeout", "120")
	aws.must("aws", "ecs", "delete-service", "--service", "ecs-deploy")
}
