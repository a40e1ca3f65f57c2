//go:build unix

package clients

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/tests/cloud"
	"berth/tests/inputs"
	"berth/tests/ministack"
	"berth/tests/process"
)

// TestThroughProxy runs the stories on the local cloud tier: an IAM user who may write and manage
// node groups runs `berth proxy`, and the tools call the proxy with the key that it prints.
func TestThroughProxy(t *testing.T) {
	if testing.Short() {
		t.Skip("make check runs it: it waits for what users wait for")
	}
	if why := ministack.WhyUnavailable(); why != "" {
		t.Skip(why)
	}
	t.Parallel()
	runStories(t, startProxied(t))
}

// startProxied starts the tier, with a cluster "default" of six instances, and the proxy.
func startProxied(t *testing.T) *door {
	t.Helper()
	inputs.DeclareInputs(t, root, "cmd", "functions", "shared", "tests/cloud", "tests/ministack", "go.mod", "go.sum",
		"infra", "template.yaml", "tools")
	// The folder is that of the end-to-end tests: what they have linked need not be linked again.
	o, err := cloud.BuildAll(t.Context(), filepath.Join(root, ".cache", "e2e"), cloud.AsDeployed)
	if err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	o.Log = &log
	o.FleetArguments = []string{"--nodes", "0", "--speed", "5", "--launch", "5"}
	o.Parameters = map[string]string{"ThrottleLadderSeconds": "1", "RestartGapSeconds": "1", "SettleSeconds": "3",
		"RecheckSeconds": "1", "SettleHealthySeconds": "2", "WriterArns": cloud.Operator.ARN(),
		"NodeGroupManagerArns": cloud.Operator.ARN()}
	c, err := cloud.Start(t.Context(), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.text())
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(log.text())
		}
	})
	as, err := c.CreateCaller(t.Context(), cloud.Operator)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ClientAs(as).CreateCluster(t.Context(),
		&ecs.CreateClusterInput{ClusterName: aws.String("default")}); err != nil {
		t.Fatal(err)
	}
	if err := c.AddInstances("default", 6, "m5.large", []string{"us-east-1a", "us-east-1b", "us-east-1c"}); err != nil {
		t.Fatal(err)
	}
	runSchedules(t, c)
	d := startProxy(t, o.Berth, append(plainEnvironment(), c.ClientEnvironment(as)...))
	d.scaling, d.balancing, d.templates, d.installation = c.SimulatedAWS, c.SimulatedAWS, c.SimulatedAWS,
		cloud.StackName
	return d
}

// runSchedules invokes the functions of the schedules every few seconds instead of each minute,
// until the test ends. One that fails runs again.
func runSchedules(t *testing.T, c *cloud.Cloud) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for function, schedule := range map[string]string{
		"health-check": "health", "managed-scaling": "scaling", "node-group-upgrade": "node-groups",
	} {
		running.Go(func() {
			for tick := time.NewTicker(3 * time.Second); ; {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					_, _ = c.InvokeSchedule(ctx, function, schedule)
				}
			}
		})
	}
	t.Cleanup(func() { stop(); running.Wait() })
}

// exported matches what `berth proxy` prints for a shell.
var exported = regexp.MustCompile(`^export (AWS_[A-Z_]+)='?([^']*)'?$`)

// startProxy runs `berth proxy` and returns the door that it opens. The proxy ends with the test.
func startProxy(t *testing.T, berth string, env []string) *door {
	t.Helper()
	cmd := exec.Command(berth, "proxy", "--stack", cloud.StackName)
	cmd.Env = env
	said := map[string]string{}
	for in := process.Start(t, cmd, new(bytes.Buffer)); in.Scan(); {
		if m := exported.FindStringSubmatch(in.Text()); m != nil {
			said[m[1]] = m[2]
		}
		if said["AWS_ENDPOINT_URL_ECS"] != "" && said["AWS_ACCESS_KEY_ID"] != "" &&
			said["AWS_SECRET_ACCESS_KEY"] != "" {
			return &door{endpoint: said["AWS_ENDPOINT_URL_ECS"], accessKey: said["AWS_ACCESS_KEY_ID"],
				key: said["AWS_SECRET_ACCESS_KEY"], isProxied: true}
		}
	}
	t.Fatalf("berth proxy prints no exports, but %v", said)
	return nil
}

// A lockedBuffer keeps what several processes print.
type lockedBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

// text returns the last part of it.
func (b *lockedBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.all.Bytes()
	return string(text[max(0, len(text)-20_000):])
}
