//go:build unix

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
)

func TestFleetHelp(t *testing.T) {
	code, out, _ := berth("fleet", "--help")
	for _, want := range []string{"Examples:", "AWS_ENDPOINT_URL", "--zones=3", "--nodes=6", "--seed=1", "--speed=1",
		`--source="berth.fleet"`} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, want 0 and %q in:\n%s", code, want, out)
		}
	}
}

func TestFleetMistakes(t *testing.T) {
	for _, c := range []struct{ args, endpoint, want string }{
		{"fleet", "", "AWS_ENDPOINT_URL is not set"},
		{"fleet --nodes=-1", "http://127.0.0.1:1", "--nodes is -1"},
		{"fleet --nodes 5001", "http://127.0.0.1:1", "--nodes is 5001"},
		{"fleet --zones 0", "http://127.0.0.1:1", "--zones is 0"},
		{"fleet --speed 0", "http://127.0.0.1:1", "--speed is 0"},
		{"fleet --speed NaN", "http://127.0.0.1:1", "--speed is NaN"},
		{"fleet --listen 0.0.0.0:5253", "http://127.0.0.1:1", "loopback"},
		{"fleet --type none", "http://127.0.0.1:1", "--type"},
		{"fleet --source=", "http://127.0.0.1:1", "--source is empty"},
	} {
		t.Setenv("AWS_ENDPOINT_URL", c.endpoint)
		code, _, errs := berth(strings.Fields(c.args)...)
		if code != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("berth %s: exit code %d and %q, want 2 and %q", c.args, code, errs, c.want)
		}
	}
}

func TestFleet(t *testing.T) {
	events := make(chan string, 100)
	bus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		events <- string(body)
		_, _ = io.WriteString(w, `{"Entries": []}`)
	}))
	defer bus.Close()
	t.Setenv("AWS_ENDPOINT_URL", bus.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	c := startChild(t, "berth", "fleet", "--listen", "127.0.0.1:0", "--nodes", "4", "--zones", "2", "--cluster", "shop",
		"--source", "a.fleet")
	api := ecsClient(c.waitForEndpoint())
	listed, err := api.ListContainerInstances(stepContext(t),
		&ecs.ListContainerInstancesInput{Cluster: aws.String("shop")})
	if err != nil || len(listed.ContainerInstanceArns) != 4 {
		t.Fatalf("ListContainerInstances = %+v, %v", listed, err)
	}
	if got := <-events; !strings.Contains(got, `"Source":"a.fleet"`) ||
		!strings.Contains(got, "ECS Container Instance State Change") {
		t.Errorf("event %s", got)
	}
	if code := c.interrupt(); code != 0 {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
	if _, stderr := c.outputSoFar(); stderr != "" {
		t.Errorf("it complains: %s", stderr)
	}
}
