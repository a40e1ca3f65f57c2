package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"berth/cmd/berth/client"
	"berth/shared/wire/berthapi"
)

// throttleCommand says how a service's starts are slowed down.
type throttleCommand struct {
	client.Endpoint
	Service string `arg:"" help:"Name or ARN of the service."`
	Cluster string `default:"default" help:"Name of the cluster."`
	JSON    bool   `help:"As JSON."`
}

// Help is the end of `berth throttle --help`.
func (t *throttleCommand) Help() string {
	return `Tasks that stop without ever having been RUNNING make the next start of their revision wait: 1 minute, then 3, 9, and 27 at
most. A new deployment begins anew, and a task that is RUNNING ends the wait. Nothing is changed.

JSON: service, revisions [deploymentId, status (PRIMARY, ACTIVE), taskDefinition, step, failures, since, nextAttemptAt, reason].

Examples:
  berth throttle web
  berth throttle web --cluster prod --json`
}

// Validate names the flag that is wrong.
func (t *throttleCommand) Validate() error {
	if !clusterNames.MatchString(t.Cluster) {
		return fmt.Errorf("--cluster is %q, expected 1 to 255 letters, digits, hyphens and underscores", t.Cluster)
	}
	return nil
}

// Run asks and prints.
func (t *throttleCommand) Run(ctx context.Context, s *streams) error {
	c, err := client.New(ctx, t.Endpoint)
	if err != nil {
		return err
	}
	var out berthapi.ThrottleOutput
	if err := c.Own(ctx, "DescribeServiceThrottle", berthapi.ServiceInput{Cluster: t.Cluster, Service: t.Service},
		&out); err != nil {
		return err
	}
	if t.JSON {
		return json.NewEncoder(s.out).Encode(out)
	}
	return printThrottle(s.out, &out)
}

func printThrottle(w io.Writer, t *berthapi.ThrottleOutput) error {
	if len(t.Revisions) == 0 {
		_, err := fmt.Fprintf(w, "No start of service %s is slowed down.\n", t.Service)
		return err
	}
	for _, r := range t.Revisions {
		_, err := fmt.Fprintf(w,
			"Service %s, deployment %s (%s, %s): %d attempts in a row failed, %d tasks never ran. Next attempt: %s.\n",
			t.Service, r.Deployment, r.Status, r.TaskDefinition, r.Step, r.Failures,
			r.NextAttemptAt.Format(time.RFC3339))
		if err == nil && r.Reason != "" {
			_, err = fmt.Fprintf(w, "  Last: %s\n", r.Reason)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
