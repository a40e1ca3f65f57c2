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

func TestThrottle(t *testing.T) {
	const answer = `{"service":"web","revisions":[{"deploymentId":"ecs-svc/1","status":"PRIMARY","taskDefinition":"web:2","step":2,"failures":5,` +
		`"since":"2026-11-21T12:00:00Z","nextAttemptAt":"2026-11-21T12:03:00Z","reason":"CannotPullContainerError"}]}`
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = r.Header.Get("X-Amz-Target") + " " + string(body)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	code, out, errs := berth("throttle", "web", "--cluster", "prod", "--endpoint", server.URL)
	want := "Service web, deployment ecs-svc/1 (PRIMARY, web:2): 2 attempts failed, one after the other. 5 tasks never ran. Next attempt: 2026-11-21T12:03:00Z.\n" +
		"  Last failure: CannotPullContainerError\n"
	if code != 0 || out != want || errs != "" {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	if asked != `Berth_20261121.DescribeServiceThrottle {"cluster":"prod","service":"web"}` {
		t.Errorf("asked for %s", asked)
	}
	code, out, _ = berth("throttle", "web", "--json", "--endpoint", server.URL)
	if code != 0 || strings.TrimSpace(out) != answer {
		t.Errorf("exit code %d, %s", code, out)
	}
}

// A running Berth answers for a service that is not throttled, and refuses one that does not exist.
func TestThrottleOfARunningBerth(t *testing.T) {
	endpoint := startChild(t, "berth", "up", "--ephemeral", "--nodes", "1", "--zones", "1", "--listen",
		"127.0.0.1:0").waitForEndpoint()
	api := ecsClient(endpoint)
	registerDefinition(t, api, "web")
	_, err := api.CreateService(stepContext(t), &ecs.CreateServiceInput{ServiceName: aws.String("web"),
		TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(0)})
	if err != nil {
		t.Fatal(err)
	}
	if code, out, errs := berth("throttle", "web", "--endpoint", endpoint); code != 0 ||
		out != "Starts of service web are not slowed down.\n" {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	if code, _, errs := berth("throttle", "api", "--endpoint", endpoint); code != 1 ||
		!strings.Contains(errs, `service "api" is not in cluster "default". `+"`berth service` lists those that exist.") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}
