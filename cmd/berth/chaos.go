package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"berth/cmd/berth/chaos"
	"berth/cmd/berth/client"
	"berth/shared/choice"
	"berth/shared/sim/ecs"
	"berth/shared/wire/transport"
)

// chaosCommand breaks machines and tasks of a simulated AWS: that of `berth up`, or the `berth
// fleet` of `make local`. It never touches AWS.
type chaosCommand struct {
	clusterFlags
	Kind     string `arg:"" optional:"" help:"One of ${chaos_kinds}."`
	Target   string `arg:"" optional:"" help:"Instance (ECS's id or EC2's), task or zone; without it, one is chosen."`
	List     bool   `help:"Show what can be broken, and what is."`
	Service  string `help:"Choose a task of this service." placeholder:"NAME"`
	ExitCode int    `default:"1" help:"With exit, the container's exit code (0-255)."`
	Seconds  int    `default:"60" help:"With slow, how much longer tasks take to start (0-3600)."`
	Fleet    string `help:"The simulated AWS ($$BERTH_FLEET, or the API's own address)." placeholder:"URL"`
	JSON     bool   `help:"Print JSON."`
}

// Validate names the flag that is wrong.
func (c *chaosCommand) Validate() error {
	kind, known := chaos.FindKind(c.Kind)
	switch {
	case c.List && c.Kind != "":
		return fmt.Errorf("the kind is %q, expected none beside --list", c.Kind)
	case !c.List && !known:
		return fmt.Errorf("the kind is %q, expected one of %s; or give --list%s", c.Kind, chaos.KindNames(),
			choice.DidYouMean(c.Kind, strings.Split(chaos.KindNames(), ", ")))
	case c.Service != "" && (kind.Subject != chaos.TaskSubject || c.Target != ""):
		return errors.New("--service is given, expected it only with exit or unhealthy, and without a task")
	case c.ExitCode < 0 || c.ExitCode > 255:
		return fmt.Errorf("--exit-code is %d, expected 0 to 255", c.ExitCode)
	case c.Seconds < 0 || c.Seconds > int(ecs.MaxStartDelay/time.Second):
		return fmt.Errorf("--seconds is %d, expected 0 to 3600", c.Seconds)
	}
	return c.clusterFlags.Validate()
}

// Run breaks what the flags say, and reports it.
func (c *chaosCommand) Run(ctx context.Context, s *streams) error {
	fleet, err := c.findFleet(ctx)
	if err != nil {
		return err
	}
	world, err := fleet.World(ctx, c.Cluster)
	if err != nil {
		if api, unreachable := c.newClient(ctx); unreachable == nil {
			err = explainUnknownCluster(ctx, api, c.Cluster, err)
		}
		return err
	}
	if c.List {
		return printAnswer(s.out, c.JSON, world)
	}
	kind, _ := chaos.FindKind(c.Kind) // checked by Validate
	r := chaos.Request{Kind: kind, Cluster: c.Cluster, Target: c.Target, ExitCode: c.ExitCode, Seconds: c.Seconds}
	if c.Service != "" {
		if r.Among, err = c.tasksOfService(ctx); err != nil {
			return err
		}
	}
	out, err := fleet.Break(ctx, r)
	if err != nil {
		return err
	}
	return printAnswer(s.out, c.JSON, out)
}

// findFleet returns a client of the fleet. Without an address of its own it is the API's, as with
// `berth up`. Only a fleet on this machine can be simulated.
func (c *chaosCommand) findFleet(ctx context.Context) (*chaos.Client, error) {
	fleet := &chaos.Client{HTTP: &http.Client{Timeout: time.Minute}, URL: cmp.Or(c.Fleet, os.Getenv("BERTH_FLEET"))}
	if fleet.URL == "" {
		target, err := client.FindTarget(ctx, c.Endpoint)
		switch {
		case err != nil:
			return nil, err
		case target.IsFunctionURL:
			return nil, errors.New("berth chaos breaks only a simulated AWS: give its address by --fleet or " +
				"$BERTH_FLEET, as make local prints it")
		}
		fleet.URL = target.URL.String()
		fleet.Sign = func(ctx context.Context, r *http.Request, body []byte) error {
			// Only requests with a path are for EKS, as far as the API's check of signatures can
			// see.
			return target.SignRequest(ctx, r, body, "eks")
		}
	}
	if u, err := url.Parse(fleet.URL); err != nil || u.Scheme != "http" || !transport.IsLoopback(u.Host) {
		return nil, fmt.Errorf("%w: the fleet is %q, expected an address on this machine such as %s", errUsage,
			fleet.URL, client.DefaultEndpoint)
	}
	return fleet, nil
}

// tasksOfService asks Berth for the tasks of the service that should run.
func (c *chaosCommand) tasksOfService(ctx context.Context) ([]string, error) {
	api, err := c.newClient(ctx)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for token := ""; ; {
		in := map[string]any{"cluster": c.Cluster, "serviceName": c.Service}
		if token != "" {
			in["nextToken"] = token
		}
		var out struct {
			ARNs []string `json:"taskArns"`
			Next string   `json:"nextToken"`
		}
		if err := api.CallECS(ctx, "ListTasks", in, &out); err != nil {
			return nil, err
		}
		ids = append(ids, out.ARNs...)
		if token = out.Next; token == "" {
			break
		}
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("service %s of cluster %s has no task that should run", c.Service, c.Cluster)
	}
	return ids, nil
}
