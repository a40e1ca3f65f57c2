//go:build unix

package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// findMirror returns a folder with the provider hashicorp/aws, laid out as a mirror, or "". The
// variable BERTH_TF_PLUGINS names one; the others are those that Terraform searches by itself, and
// one that images of build machines use.
func findMirror() string {
	home, _ := os.UserHomeDir()
	for _, dir := range []string{os.Getenv("BERTH_TF_PLUGINS"), filepath.Join(home, ".terraform.d", "plugins"),
		filepath.Join(home, ".local", "share", "terraform", "plugins"), "/usr/local/share/terraform/plugins",
		"/usr/share/terraform/plugins", "/opt/tf-plugins"} {
		found, err := filepath.Glob(filepath.Join(dir, "registry.terraform.io", "hashicorp", "aws", "*"))
		if dir != "" && err == nil && len(found) > 0 {
			return dir
		}
	}
	return ""
}

// A terraformStory is a folder with a configuration, its state, and its variables.
type terraformStory struct {
	program
	variables []string
}

// newTerraformStory initializes a configuration of testdata in a folder of its own, or skips the
// test. What is left when the test fails is destroyed, because other stories use the door, too.
func newTerraformStory(t *testing.T, d *door, configuration string) *terraformStory {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", configuration))); err != nil {
		t.Fatal(err)
	}
	return newTerraformStoryIn(t, d, dir)
}

// newTerraformStoryIn initializes the configuration in a folder.
func newTerraformStoryIn(t *testing.T, d *door, dir string) *terraformStory {
	t.Helper()
	if _, err := exec.LookPath("terraform"); err != nil {
		t.Skip("no terraform on this machine")
	}
	mirror := findMirror()
	if mirror == "" {
		t.Skip("no provider hashicorp/aws on this machine: BERTH_TF_PLUGINS names a mirror folder that has it")
	}
	config := filepath.Join(dir, "terraform.rc")
	text := fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// The endpoints are variables: they are in the configuration, as people have them. With GOGC,
	// Terraform and its provider use half as much of the processor.
	env := append(d.environment(), "TF_CLI_CONFIG_FILE="+config, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1",
		"GOGC=400", "GOMEMLIMIT=1GiB",
		"TF_VAR_ecs="+d.endpoint, "TF_VAR_autoscaling="+d.scaling, "TF_VAR_elbv2="+d.balancing,
		"TF_VAR_ec2="+d.templates,
		"TF_VAR_installation="+d.installation)
	s := &terraformStory{program: program{t, dir, env, 8 * time.Minute}}
	s.must("terraform", "init", "-no-color")
	t.Cleanup(func() {
		if t.Failed() {
			_, _ = s.run("terraform", append([]string{"destroy", "-no-color", "-auto-approve"}, s.variables...)...)
		}
	})
	return s
}

// apply changes what the configuration with these variables asks for.
func (s *terraformStory) apply(variables ...string) string {
	s.t.Helper()
	s.variables = nil
	for _, v := range variables {
		s.variables = append(s.variables, "-var", v)
	}
	return s.terraform("apply", "-auto-approve")
}

// isUpToDate checks that a plan finds nothing to do.
func (s *terraformStory) isUpToDate() {
	s.t.Helper()
	out, code := s.run("terraform", append([]string{"plan", "-no-color", "-detailed-exitcode"}, s.variables...)...)
	if code != 0 {
		s.t.Fatalf("terraform plan: exit code %d, want 0: nothing to do\n%s", code, out)
	}
}

// contains checks what a command has printed.
func (s *terraformStory) contains(out, want string) {
	s.t.Helper()
	if !strings.Contains(out, want) {
		s.t.Errorf("%q is not in\n%s", want, out)
	}
}

func (s *terraformStory) terraform(command string, args ...string) string {
	s.t.Helper()
	return s.must("terraform", append(append([]string{command, "-no-color"}, args...), s.variables...)...)
}

// runTerraformStory applies a configuration with a capacity provider, a service behind a target
// group that waits until it is steady, a node group, and two others whose Auto Scaling groups Berth
// makes, one of them of a custom image; plans, which must find nothing to do; changes image, count,
// the nodes' launch template and the others' release, which updates the nodes, with labels and a
// taint in place; plans again; and destroys.
func runTerraformStory(t *testing.T, d *door) {
	s := newTerraformStory(t, d, "terraform")
	check := s.contains
	check(s.apply(), "Apply complete! Resources: 15 added, 0 changed, 0 destroyed.")
	s.isUpToDate()
	check(s.terraform("output"), "desired = 2")
	check(s.apply("image=nginx:2", "desired=3", "ami=ami-2", "team=other", "effect=NO_EXECUTE",
		"release=al2023-ami-ecs-hvm-2023.0.20261015-kernel-6.1-x86_64"),
		"Apply complete! Resources: 2 added, 5 changed, 2 destroyed.")
	s.isUpToDate()
	check(s.terraform("destroy", "-auto-approve"), "Destroy complete! Resources: 15 destroyed.")
}
