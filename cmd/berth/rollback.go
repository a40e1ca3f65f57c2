package main

import (
	"context"
	"encoding/json"
	"fmt"

	"berth/cmd/berth/client"
)

// rollbackCommand takes a service back to its last completed deployment.
type rollbackCommand struct {
	client.Endpoint
	Service string `arg:"" help:"Name or ARN of the service."`
	Cluster string `default:"default" help:"Name of the cluster."`
	Abort   bool   `help:"Only stop the deployment, and leave the tasks that it has."`
	JSON    bool   `help:"As JSON."`
}

// Help is the end of `berth rollback --help`.
func (r *rollbackCommand) Help() string {
	return `Stops the deployment that is under way (StopServiceDeployment). Of a service whose deployment has ended nothing is changed: update it
to the task definition that it should have.

JSON: serviceDeploymentArn, stopType.

Examples:
  berth rollback web
  berth rollback web --cluster prod --abort --json`
}

// Validate names the flag that is wrong.
func (r *rollbackCommand) Validate() error {
	if !clusterNames.MatchString(r.Cluster) {
		return fmt.Errorf("--cluster is %q, expected 1 to 255 letters, digits, hyphens and underscores", r.Cluster)
	}
	return nil
}

// stopCall is what the command asked for.
type stopCall struct {
	ARN  string `json:"serviceDeploymentArn"`
	Type string `json:"stopType"`
}

// Run finds the current service deployment and has it stopped.
func (r *rollbackCommand) Run(ctx context.Context, s *streams) error {
	c, err := client.New(ctx, r.Endpoint)
	if err != nil {
		return err
	}
	var found struct {
		Services []struct {
			Deployment string `json:"currentServiceDeployment"`
		} `json:"services"`
	}
	asked := map[string]any{"cluster": r.Cluster, "services": []string{r.Service}}
	if err := c.ECS(ctx, "DescribeServices", asked, &found); err != nil {
		return err
	}
	if len(found.Services) == 0 || found.Services[0].Deployment == "" {
		return fmt.Errorf("service %q of cluster %s has no deployment", r.Service, r.Cluster)
	}
	stop := stopCall{ARN: found.Services[0].Deployment, Type: "ROLLBACK"}
	words := "Service %s goes back to its last completed deployment: %s is being stopped.\n"
	if r.Abort {
		stop.Type, words = "ABORT", "Service %s stays as it is: %s is being stopped.\n"
	}
	if err := c.ECS(ctx, "StopServiceDeployment", stop, nil); err != nil {
		return err
	}
	if r.JSON {
		return json.NewEncoder(s.out).Encode(stop)
	}
	_, err = fmt.Fprintf(s.out, words, r.Service, stop.ARN)
	return err
}
