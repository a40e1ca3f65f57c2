//go:build unix

package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/tests/inputs"
)

// TestExamples runs what examples/ has, as examples/README.md says, on `berth up`.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("make check runs it: it waits for what users wait for")
	}
	t.Parallel()
	inputs.DeclareInputs(t, root, "examples")
	d := startEmbedded(t)
	for name, run := range map[string]func(*testing.T, *door, string){
		"terraform": runTerraformExample, "ansible": runAnsibleExample, "boto3": runBoto3Examples,
		"ecspresso": runEcspressoExample,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, d, exampleCopy(t, name))
		})
	}
}

// exampleCopy copies an example to a folder of its own, because tools write beside their files.
func exampleCopy(t *testing.T, name string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples", name))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// running checks how many tasks of a service run, and which image they have.
func (p *program) running(service, want string) {
	p.t.Helper()
	definition := p.must("aws", "ecs", "describe-services", "--services", service, "--query",
		"services[0].taskDefinition", "--output", "text")
	got := p.must("aws", "ecs", "describe-services", "--services", service, "--query",
		"services[0].runningCount") + " " +
		p.must("aws", "ecs", "describe-task-definition", "--task-definition", definition, "--query",
			"taskDefinition.containerDefinitions[0].image", "--output", "text")
	if got != want {
		p.t.Errorf("service %s runs %q, want %q", service, got, want)
	}
}

func runTerraformExample(t *testing.T, d *door, dir string) {
	s := newTerraformStoryIn(t, d, dir)
	s.contains(s.apply(), "Apply complete! Resources: 11 added, 0 changed, 0 destroyed.")
	s.isUpToDate()
	s.contains(s.apply("image=nginx:2"), "Apply complete! Resources: 1 added, 1 changed, 1 destroyed.")
	s.isUpToDate()
	s.contains(s.terraform("destroy", "-auto-approve"), "Destroy complete! Resources: 11 destroyed.")
}

func runAnsibleExample(t *testing.T, d *door, dir string) {
	p := &program{t, dir, ansibleEnvironment(t, d), 5 * time.Minute}
	for _, want := range []string{"changed=2", "changed=0"} {
		out := p.must(pythonTool(t, "ansible-playbook"), "-i", "localhost,", "deploy.yml")
		if !strings.Contains(out, want) || !strings.Contains(out, "failed=0") {
			t.Errorf("the play ends with %s, want %s", out, want)
		}
	}
	p.running("greet", "2 nginx:1")
}

// runBoto3Examples creates and updates a service with boto3, and updates it with ecs-deploy.
func runBoto3Examples(t *testing.T, d *door, dir string) {
	p := &program{t, dir, d.environment(), 4 * time.Minute}
	for n, image := range []string{"nginx:1", "nginx:2"} {
		want := []string{"2 tasks of hello:1 run", "2 tasks of hello:2 run"}[n]
		if out := p.must(pythonTool(t, "python"), "deploy.py", image); out != want {
			t.Errorf("it printed %q, want %q", out, want)
		}
		p.running("hello", "2 "+image)
	}
	tools := filepath.Dir(pythonTool(t, "ecs"))
	p.dir = exampleCopy(t, "ecs-deploy")
	p.env = append(p.env, "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out := p.must("sh", "deploy.sh", "nginx:3"); !strings.Contains(out, "Deployment successful") {
		t.Errorf("it printed %s", out)
	}
	p.running("hello", "2 nginx:3")
}

func runEcspressoExample(t *testing.T, d *door, dir string) {
	if _, err := exec.LookPath("ecspresso"); err != nil {
		t.Skip("no ecspresso on this machine: go install github.com/kayac/ecspresso/v2/cmd/ecspresso@latest puts one there")
	}
	p := &program{t, dir, d.environment(), 4 * time.Minute}
	p.must("ecspresso", "deploy", "--config", "config.yaml")
	p.running("express", "2 nginx:1")
}
