//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/cmd/berth/chaos"
)

// berthUp starts `berth up` that keeps nothing, with more flags, and returns its endpoint.
func berthUp(t *testing.T, flags ...string) string {
	t.Helper()
	args := append([]string{"up", "--ephemeral", "--listen", "127.0.0.1:0"}, flags...)
	return startChild(t, "berth", args...).waitForEndpoint()
}

// A killed machine's tasks run elsewhere, and a task that exits is replaced. The command says what
// it has broken, as text and as JSON.
func TestChaosOnARunningBerth(t *testing.T) {
	endpoint := berthUp(t, "--nodes", "3")
	api := ecsClient(endpoint)
	registerDefinition(t, api, "web")
	_, err := api.CreateService(stepContext(t), &ecs.CreateServiceInput{ServiceName: aws.String("web"),
		TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(3)})
	if err != nil {
		t.Fatal(err)
	}
	awaitRunning(t, api, "web", 3)
	before := taskARNs(t, api)
	code, out, errs := berth("chaos", "exit", "--service", "web", "--exit-code", "9", "--endpoint", endpoint, "--json")
	var broken chaos.Result
	if err := json.Unmarshal([]byte(out), &broken); code != 0 || err != nil || broken.Kind != "exit" ||
		*broken.ExitCode != 9 || !strings.Contains(strings.Join(before, " "), broken.Tasks[0].ID) {
		t.Fatalf("exit code %d, %v: %s%s, want one of %v", code, err, out, errs, before)
	}
	awaitRunning(t, api, "web", 3)
	if code, out, errs := berth("chaos", "kill", "--endpoint", endpoint); code != 0 ||
		!strings.HasPrefix(out, "The machine of instance ") || !strings.HasSuffix(out, " is terminated.\n") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	world := awaitWorld(t, endpoint, 2, 3)
	if code, out, errs := berth("chaos", "--list", "--endpoint", endpoint); code != 0 ||
		!strings.Contains(out, world.Instances[0].ID) || !strings.Contains(out, world.Tasks[2].ID) {
		t.Errorf("exit code %d, %s%s, want the instances and tasks of %+v", code, out, errs, world)
	}
	for args, want := range map[string]string{
		"kill i-0123456789abcdef0": "instance i-0123456789abcdef0 is not in cluster default",
		"exit --service other":     `service "other" is not in cluster "default"`,
		"exit --cluster other":     `there is no cluster "other", expected one of: default`,
	} {
		if code, _, errs := berth(append(strings.Fields("chaos "+args), "--endpoint", endpoint)...); code != 1 ||
			!strings.Contains(errs, want) {
			t.Errorf("berth chaos %s: exit code %d, %q, want %q", args, code, errs, want)
		}
	}
}

// awaitWorld waits until the fleet has so many instances and tasks, and returns it. Berth may not
// have noticed yet what was broken a moment ago.
func awaitWorld(t *testing.T, endpoint string, instances, tasks int) (world chaos.World) {
	t.Helper()
	ctx := stepContext(t)
	for {
		code, out, errs := berth("chaos", "--list", "--endpoint", endpoint, "--json")
		world = chaos.World{}
		if err := json.Unmarshal([]byte(out), &world); code != 0 || err != nil {
			t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
		}
		if len(world.Instances) == instances && len(world.Tasks) == tasks {
			return world
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%+v, want %d instances and %d tasks", world, instances, tasks)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// The fleet must be on this machine: AWS cannot be broken, by mistake either.
func TestChaosSparesEverythingElse(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "any")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "any")
	t.Setenv("AWS_REGION", "us-east-1")
	for _, args := range []string{"--fleet http://berth.example:5252", "--fleet https://127.0.0.1", "--fleet ftp://x",
		"--endpoint https://abc.lambda-url.us-east-1.on.aws", "--endpoint http://192.0.2.1:5252"} {
		code, out, errs := berth(append([]string{"chaos", "kill"}, strings.Fields(args)...)...)
		if code == 0 || out != "" || !strings.Contains(errs, "fleet") {
			t.Errorf("berth chaos kill %s: exit code %d, %s%s", args, code, out, errs)
		}
	}
	if code, _, errs := berth("chaos", "kill", "--fleet", "http://127.0.0.1:1"); code != 1 ||
		!strings.Contains(errs, "no fleet answers at http://127.0.0.1:1") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// With --credentials, only those who may change services may break machines.
func TestChaosWithCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, []byte(accessKeys), 0o600); err != nil {
		t.Fatal(err)
	}
	endpoint := berthUp(t, "--nodes", "1", "--credentials", file)
	for _, c := range []struct{ key, secret, kind, want string }{
		{"AKIAREADER", "r", "kill", "not authorized"},
		{"AKIAREADER", "guess", "--list", "signature"},
		{"AKIAREADER", "r", "--list", ""},
		{"AKIAWRITER", "w", "kill", ""},
	} {
		t.Setenv("AWS_ACCESS_KEY_ID", c.key)
		t.Setenv("AWS_SECRET_ACCESS_KEY", c.secret)
		code, _, errs := berth("chaos", c.kind, "--endpoint", endpoint)
		if (code == 0) != (c.want == "") || !strings.Contains(errs, c.want) {
			t.Errorf("berth chaos %s as %s: exit code %d, %q, want %q", c.kind, c.key, code, errs, c.want)
		}
	}
}

// Data is of one account and Region. Another one is refused, and the data stays as it is.
func TestUpRefusesTheDataOfAnotherRegion(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	flags := []string{"up", "--listen", "127.0.0.1:0", "--nodes", "1", "--data", data}
	first := startChild(t, "berth", flags...)
	registerDefinition(t, ecsClient(first.waitForEndpoint()), "kept")
	first.interrupt()
	for _, other := range [][]string{{"--region", "eu-west-1"}, {"--account", "999999999999"}} {
		code, out, errs := berth(append(flags, other...)...)
		if code != 1 || out != "" {
			t.Errorf("%v: exit code %d, %s", other, code, out)
		}
		for _, want := range []string{"--data " + data, other[0] + " " + other[1], "another account or Region",
			"arn:aws:ecs:us-east-1:123456789012:cluster/default"} {
			if !strings.Contains(errs, want) {
				t.Errorf("%v: %q does not say %q", other, errs, want)
			}
		}
	}
	api := ecsClient(startChild(t, "berth", flags...).waitForEndpoint())
	if _, err := api.DescribeTaskDefinition(stepContext(t),
		&ecs.DescribeTaskDefinitionInput{TaskDefinition: aws.String("kept")}); err != nil {
		t.Error(err)
	}
}

// Without nodes there is a cluster that machines can join.
func TestUpWithoutNodes(t *testing.T) {
	endpoint := berthUp(t, "--nodes", "0")
	code, out, errs := berth("chaos", "--list", "--endpoint", endpoint, "--json")
	if code != 0 || strings.TrimSpace(out) != `{"instances":[],"tasks":[]}` {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	if code, _, errs := berth("chaos", "kill", "--endpoint", endpoint); code != 1 ||
		!strings.Contains(errs, "no machine of cluster default runs") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// Time passes faster everywhere: tasks that exit after two minutes are replaced within one.
func TestUpWithSpeed(t *testing.T) {
	t.Chdir(t.TempDir())
	endpoint := startChild(t, "berth", "up", "--speed", "60", "--nodes", "1", "--listen",
		"127.0.0.1:0").waitForEndpoint()
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("it wrote %v, %v", left, err)
	}
	api, ctx := ecsClient(endpoint), stepContext(t)
	_, err := api.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{
		Family: aws.String("job"), ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String("job"), Image: aws.String("busybox"), Memory: aws.Int32(16),
			Environment: []types.KeyValuePair{{Name: aws.String("BERTH_FLEET_RUN_SECONDS"), Value: aws.String("120")}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.CreateService(ctx, &ecs.CreateServiceInput{ServiceName: aws.String("web"),
		TaskDefinition: aws.String("job"), DesiredCount: aws.Int32(1)}); err != nil {
		t.Fatal(err)
	}
	first := ""
	for range time.Tick(50 * time.Millisecond) {
		out, err := api.ListTasks(ctx, &ecs.ListTasksInput{ServiceName: aws.String("web")})
		switch {
		case err != nil:
			t.Fatalf("no task has replaced the first, %q: %v", first, err)
		case len(out.TaskArns) == 0:
		case first == "":
			first = out.TaskArns[0]
		case out.TaskArns[0] != first:
			return
		}
	}
}
