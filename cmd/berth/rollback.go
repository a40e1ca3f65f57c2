package main

import (
	"context"
	"encoding/json"
	"fmt"

	"berth/cmd/berth/client"
	"berth/cmd/berth/problem"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
)

// rollbackCommand returns a service to its last completed deployment. ECS's StopServiceDeployment
// does the work; the command finds the deployment that it asks for.
type rollbackCommand struct {
	clusterFlags
	Service string `arg:"" help:"Name or ARN of the service."`
	Abort   bool   `help:"Only stop the deployment; the service keeps the tasks that it has."`
	JSON    bool   `help:"Print JSON."`
}

// stopCall is the body of StopServiceDeployment, and what the command prints as JSON.
type stopCall struct {
	ARN  string `json:"serviceDeploymentArn"`
	Type string `json:"stopType"`
}

// Run finds the service's deployment in progress and stops it. Stopping takes a while; the command
// does not wait for it.
func (r *rollbackCommand) Run(ctx context.Context, s *streams) error {
	c, err := r.newClient(ctx)
	if err != nil {
		return err
	}
	var found struct {
		Services []struct {
			Deployment string `json:"currentServiceDeployment"`
		} `json:"services"`
	}
	asked := map[string]any{"cluster": r.Cluster, "services": []string{r.Service}}
	if err := c.CallECS(ctx, "DescribeServices", asked, &found); err != nil {
		return err
	}
	// DescribeServices reports an unknown service as a failure, not as an error.
	if len(found.Services) == 0 {
		known, err := c.ServiceNames(ctx, r.Cluster)
		if err != nil {
			return err
		}
		return &whatif.NotFound{Kind: "service", Name: cluster.LastPart(r.Service), Known: known}
	}
	if found.Services[0].Deployment == "" {
		return fmt.Errorf("service %q of cluster %s has no deployment", r.Service, r.Cluster)
	}
	stop := stopCall{ARN: found.Services[0].Deployment, Type: "ROLLBACK"}
	text := "Service %s returns to its last completed deployment; %s is being stopped.\n"
	if r.Abort {
		stop.Type, text = "ABORT", "Service %s keeps the tasks that it has; %s is being stopped.\n"
	}
	if err := c.CallECS(ctx, "StopServiceDeployment", stop, nil); err != nil {
		if cluster.ErrorCode(err) == cluster.CodeConflict {
			return r.explainConflict(ctx, c, stop.ARN, err)
		}
		return err
	}
	if r.JSON {
		return json.NewEncoder(s.out).Encode(stop)
	}
	_, err = fmt.Fprintf(s.out, text, r.Service, stop.ARN)
	return err
}

// explainConflict says that the deployment has ended, and what returns the service to an earlier revision
// then. Of a deployment that has not ended, err says why it cannot be stopped.
func (r *rollbackCommand) explainConflict(ctx context.Context, c *client.Client, arn string, err error) error {
	var found struct {
		Deployments []struct {
			Status cluster.ServiceDeploymentStatus `json:"status"`
		} `json:"serviceDeployments"`
	}
	asked := map[string]any{"serviceDeploymentArns": []string{arn}}
	if failed := c.CallECS(ctx, "DescribeServiceDeployments", asked, &found); failed != nil ||
		len(found.Deployments) == 0 || !found.Deployments[0].Status.HasEnded() {
		return err
	}
	name := cluster.LastPart(r.Service)
	return fmt.Errorf("service %s has no deployment in progress: the last one is %s; to return to an earlier "+
		"revision: aws ecs update-service --cluster %s --service %s --task-definition FAMILY:REVISION",
		name, found.Deployments[0].Status, problem.QuoteArgument(r.Cluster), problem.QuoteArgument(name))
}
