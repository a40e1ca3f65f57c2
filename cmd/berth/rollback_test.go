//go:build unix

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// A deployment in progress is rolled back; a missing service and an ended deployment are refused.
func TestRollback(t *testing.T) {
	endpoint := startChild(t, "berth", "up", "--ephemeral", "--nodes", "3", "--listen", "127.0.0.1:0").waitForEndpoint()
	api := ecsClient(endpoint)
	registerDefinition(t, api, "web")
	_, err := api.CreateService(stepContext(t), &ecs.CreateServiceInput{ServiceName: aws.String("web"),
		TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(3)})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(want string, args ...string) {
		t.Helper()
		code, out, errs := berth(append(args, "--endpoint", endpoint)...)
		if code != 1 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("berth %q: exit code %d, %s%s, want %q", args, code, out, errs, want)
		}
	}
	refused(`service "api" is not in the cluster, expected one of: web`, "rollback", "api")
	refused("there is no cluster \"nope\". `berth cluster` lists those that exist.", "rollback", "web", "--cluster", "nope")
	awaitRunning(t, api, "web", 3)
	awaitCompleted(t, api, "web")
	refused("service web has no deployment in progress: the last one is SUCCESSFUL; to return to an earlier revision: "+
		"aws ecs update-service --cluster default --service web --task-definition FAMILY:REVISION", "rollback", "web")

	before := serviceOf(t, api, "web").Deployments[0]
	_, err = api.UpdateService(stepContext(t), &ecs.UpdateServiceInput{Service: aws.String("web"),
		ForceNewDeployment: true})
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := berth("rollback", "web", "--json", "--endpoint", endpoint)
	if code != 0 || !strings.Contains(out, `"stopType":"ROLLBACK"`) ||
		!strings.Contains(out, "service-deployment/default/web/") {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	awaitCompleted(t, api, "web")
	if after := serviceOf(t, api, "web").Deployments[0]; *after.Id != *before.Id {
		t.Errorf("the service is at %s, not at %s", *after.Id, *before.Id)
	}
}

func serviceOf(t *testing.T, api *ecs.Client, name string) types.Service {
	t.Helper()
	out, err := api.DescribeServices(context.WithoutCancel(t.Context()),
		&ecs.DescribeServicesInput{Services: []string{name}})
	if err != nil || len(out.Services) != 1 {
		t.Fatalf("service %s: %v, %v", name, out, err)
	}
	return out.Services[0]
}

// awaitCompleted waits until a service has a single deployment, which is completed.
func awaitCompleted(t *testing.T, api *ecs.Client, name string) {
	t.Helper()
	ctx, pause := stepContext(t), time.NewTicker(20*time.Millisecond)
	defer pause.Stop()
	for {
		s := serviceOf(t, api, name)
		if len(s.Deployments) == 1 && s.Deployments[0].RolloutState == types.DeploymentRolloutStateCompleted {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("service %s has %d deployments, the first is %s", name, len(s.Deployments),
				s.Deployments[0].RolloutState)
		case <-pause.C:
		}
	}
}
