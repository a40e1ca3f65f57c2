//go:build unix

package clients

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/tests/inputs"
	"berth/tests/ministack"
	"berth/tests/process"
)

const root = "../.."

// A door is an address of Berth's ECS and EKS APIs, with a cluster "default" that has instances.
type door struct {
	endpoint string
	// scaling, balancing and templates are the addresses of Auto Scaling, Elastic Load Balancing
	// and EC2, where the groups are that Berth uses.
	scaling, balancing, templates string
	// installation is the value of the tag that lets Berth change a group.
	installation   string
	accessKey, key string
	// isProxied reports that the endpoint is `berth proxy`, which serves ECS and EKS alone.
	isProxied bool
}

// TestEmbedded runs all stories on `berth up`, where time passes twenty times as fast: a deployment
// is stable after two seconds, and an update of nodes ends in two minutes.
func TestEmbedded(t *testing.T) {
	if testing.Short() {
		t.Skip("make check runs it: it waits for what users wait for")
	}
	t.Parallel()
	runStories(t, startEmbedded(t))
}

func runStories(t *testing.T, d *door) {
	for _, story := range []struct {
		name string
		run  func(*testing.T, *door)
	}{
		{"Terraform", runTerraformStory}, // first, because it takes longest
		{"TerraformFleet", runFleetStory},
		{"Ansible", runAnsibleStory},
		{"AWSCLI", runCLIStory},
		{"ECSDeploy", runECSDeployStory},
		{"Boto3", runBoto3Story},
		{"GoSDK", runSDKStory},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			story.run(t, d)
		})
	}
}

// startEmbedded runs `berth up` on a free port.
func startEmbedded(t *testing.T) *door {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "berth")
	inputs.DeclareInputs(t, root, "cmd", "shared", "go.mod", "go.sum", "template.yaml", "tools")
	if out, err := exec.Command("go", "build", "-o", bin, root+"/cmd/berth").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(bin, "up", "--ephemeral", "--speed", "20", "--listen", "127.0.0.1:0")
	endpoint := process.StartServer(t, cmd)
	return &door{endpoint: endpoint, scaling: endpoint, balancing: endpoint, templates: endpoint,
		installation: "berth", accessKey: "any", key: "any"}
}

// plainEnvironment returns this process's variables, without what it knows of AWS.
func plainEnvironment() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") })
	return append(env, "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull,
		"AWS_EC2_METADATA_DISABLED=true", "AWS_PAGER=", "AWS_MAX_ATTEMPTS=3")
}

// environment returns the variables with which a client calls Berth, and nobody else.
func (d *door) environment() []string {
	return append(plainEnvironment(), "AWS_ENDPOINT_URL="+d.endpoint, "AWS_ACCESS_KEY_ID="+d.accessKey,
		"AWS_SECRET_ACCESS_KEY="+d.key,
		"AWS_DEFAULT_REGION="+ministack.Region, "AWS_REGION="+ministack.Region)
}

// A program runs commands as a user of a door does.
type program struct {
	t   *testing.T
	dir string
	env []string
	// timeout is how long one command may take.
	timeout time.Duration
}

// run returns what a command prints, and its exit code.
func (p *program) run(name string, args ...string) (out string, code int) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), p.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	cmd.WaitDelay = 10 * time.Second
	text, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && (ctx.Err() != nil || !errors.As(err, &failed)) {
		p.t.Fatalf("%s %s: %v (it may take %s)\n%s", filepath.Base(name), strings.Join(args, " "), err, p.timeout, text)
	}
	return string(bytes.TrimSpace(text)), cmd.ProcessState.ExitCode()
}

// must runs a command that must succeed.
func (p *program) must(name string, args ...string) string {
	p.t.Helper()
	out, code := p.run(name, args...)
	if code != 0 {
		p.t.Fatalf("%s %s: exit code %d\n%s", filepath.Base(name), strings.Join(args, " "), code, out)
	}
	return out
}

// reaches runs a command again for as long as it prints before, for at most a minute. It must then print want.
func (p *program) reaches(before, want, name string, args ...string) {
	p.t.Helper()
	got := p.must(name, args...)
	for end := time.Now().Add(time.Minute); got == before && time.Now().Before(end); {
		got = p.must(name, args...)
	}
	if got != want {
		p.t.Errorf("%s %s: got %q, want %q", filepath.Base(name), strings.Join(args, " "), got, want)
	}
}

// pythonTool returns the path of a program of tools/clients.txt, or skips the test.
func pythonTool(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, ".cache", "venv", "clients", "bin", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Skipf("%s is not there: make check fetches it where Python is", name)
	}
	return path
}
