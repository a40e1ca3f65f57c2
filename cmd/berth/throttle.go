package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"berth/cmd/berth/whatif"
	"berth/shared/wire/berthapi"
)

// throttleCommand shows how a service's starts are slowed down (S7). It calls
// DescribeServiceThrottle.
type throttleCommand struct {
	clusterFlags
	Service string `arg:"" help:"Name or ARN of the service."`
	JSON    bool   `help:"Print JSON."`
}

// Run prints the revisions whose starts are slowed down.
func (t *throttleCommand) Run(ctx context.Context, s *streams) error {
	c, err := t.newClient(ctx)
	if err != nil {
		return err
	}
	var out berthapi.ThrottleOutput
	in := berthapi.ServiceInput{Cluster: t.Cluster, Service: t.Service}
	if err := c.CallBerth(ctx, "DescribeServiceThrottle", in, &out); err != nil {
		return err
	}
	if t.JSON {
		return json.NewEncoder(s.out).Encode(out)
	}
	return printThrottle(s.out, &out)
}

// printThrottle writes a line for each revision that waits for its next attempt.
func printThrottle(w io.Writer, t *berthapi.ThrottleOutput) error {
	// Only revisions that wait are listed.
	if len(t.Revisions) == 0 {
		_, err := fmt.Fprintf(w, "Starts of service %s are not slowed down.\n", t.Service)
		return err
	}
	for _, r := range t.Revisions {
		_, err := fmt.Fprintf(w,
			"Service %s, deployment %s (%s, %s): %s. %s never ran. Next attempt: %s.\n",
			t.Service, r.Deployment, r.Status, r.TaskDefinition, whatif.CountFailedAttempts(r.Step),
			whatif.CountNoun(r.Failures, "task"), r.NextAttemptAt.Format(time.RFC3339))
		if err == nil && r.Reason != "" {
			_, err = fmt.Fprintf(w, "  Last failure: %s\n", r.Reason)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
