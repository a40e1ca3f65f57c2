package contract

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/tests/ministack"
)

// serve runs moto until standard input ends, so that it cannot outlive the test.
const serve = `
import os, sys, threading
def end_with_stdin():
    while os.read(0, 4096):
        pass
    os._exit(0)
threading.Thread(target=end_with_stdin, daemon=True).start()
from moto.server import main
main(["-H", "127.0.0.1", "-p", sys.argv[1]])
`

// running is moto, started by the first test that needs it.
var running struct {
	once     sync.Once
	endpoint string
	err      error
	stop     func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	if running.stop != nil {
		running.stop()
	}
	os.Exit(code)
}

// motoEndpoint returns the emulator's endpoint. tools/moto.txt pins its version. Without moto the
// test is skipped.
func motoEndpoint(t *testing.T) string {
	t.Helper()
	root, err := ministack.ProjectRoot()
	if err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(root, ".cache", "venv", "moto", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Skip("moto is not there: `make test` fetches it where Python is")
	}
	running.once.Do(func() { running.err = startMoto(python) })
	if running.err != nil {
		t.Fatal(running.err)
	}
	return running.endpoint
}

func startMoto(python string) error {
	port, err := ministack.FreePort()
	if err != nil {
		return err
	}
	cmd := exec.Command(python, "-c", serve, fmt.Sprint(port))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	running.stop = func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	}
	running.endpoint = fmt.Sprintf("http://127.0.0.1:%d", port)
	late := time.After(time.Minute)
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		resp, err := http.Get(running.endpoint + "/moto-api/")
		if err == nil {
			return resp.Body.Close()
		}
		select {
		case <-tick.C:
		case <-late:
			return fmt.Errorf("moto does not come up: %w", err)
		}
	}
}

// motoECS returns moto's ECS with EC2 instances.
func motoECS(t *testing.T) *ecsBackend {
	b := &ecsBackend{endpoint: motoEndpoint(t)}
	b.machine = func() (string, error) {
		id, _, err := runInstance(t.Context(), b.endpoint)
		return fmt.Sprintf(`{"region":%q,"instanceId":%q,"accountId":"123456789012"}`, region, id), err
	}
	b.join = func(cluster string, n int) error {
		for range n {
			document, err := b.machine()
			if err != nil {
				return err
			}
			if _, err := b.client.RegisterContainerInstance(t.Context(), &ecs.RegisterContainerInstanceInput{
				Cluster: &cluster, InstanceIdentityDocument: &document,
			}); err != nil {
				return err
			}
		}
		return nil
	}
	b.awaitPending = func() {} // each description advances a task by one status
	b.knownDifferences = map[string]string{
		"StartTaskOnElevenInstancesIsRefused": "moto bounds no number of instances",
		"StartTaskOnNoSuchInstanceFailsForIt": "moto answers status 500",
		"StartTaskBeyondCapacityFailsForIt":   "moto starts whatever it is asked to",
		"ATaskReportsItsInstanceAndVersion":   "moto's tasks have no version: events, which it does not send, are told apart by it",
		"StoppedTasksAreListedApart":          "moto's desired status of a task that was stopped stays what ListTasks does not know",
		"StopTaskOfNoTask":                    "moto raises an error of its own, without ECS's code",
		"ListInstancesOfNoCluster":            "moto gives an empty list",
		"AttributesAreListedByName":           "moto compares the value, too, that was not asked for",
		"DescribeTasksNamesWhatIsMissing":     "moto gives no failures",
		"StartedByIsTheOnlyFilter":            "moto takes it with others",
	}
	return b
}

// runInstance starts a machine in moto's EC2, because only such a machine can join a cluster. moto
// does not check signatures, but finds the service by them. It returns the ids of the machine and
// of its network.
func runInstance(ctx context.Context, endpoint string) (id, vpc string, err error) {
	form := url.Values{
		"Action": {"RunInstances"}, "Version": {"2016-11-15"}, "ImageId": {"ami-12c6146b"}, "MinCount": {"1"},
		"MaxCount":     {"1"},
		"InstanceType": {"m5.large"},
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/", strings.NewReader(form.Encode()))
	if err != nil {
		return "", "", err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization",
		"AWS4-HMAC-SHA256 Credential=AKIDTEST/20261121/"+region+"/ec2/aws4_request, SignedHeaders=host, Signature=0")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", "", err
	}
	var out struct {
		ID  string `xml:"instancesSet>item>instanceId"`
		VPC string `xml:"instancesSet>item>networkInterfaceSet>item>vpcId"`
	}
	if err := xml.Unmarshal(body, &out); err != nil || out.ID == "" {
		return "", "", fmt.Errorf("running an EC2 instance: status %d: %s", resp.StatusCode, body)
	}
	return out.ID, out.VPC, nil
}
