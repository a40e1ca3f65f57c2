package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"

	"berth/cmd/berth/dataplane"
	"berth/shared/awsapi"
	"berth/shared/awsapi/eventbus"
	"berth/shared/cluster"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
)

// fleetCommand is the simulated fleet alone, for a Berth that runs elsewhere.
type fleetCommand struct {
	Nodes   int     `default:"6" help:"Simulated container instances that the cluster has at least (0-5000; 0 makes no cluster)."`
	Zones   int     `default:"3" help:"Availability zones that they are spread over (1-6)."`
	Type    string  `default:"m5.large" help:"EC2 type of new instances."`
	Cluster string  `default:"default" help:"Name of the cluster."`
	Seed    uint64  `default:"1" help:"What the fleet does by chance follows from this."`
	Speed   float64 `default:"1" help:"How many times faster tasks start, targets become healthy and groups launch; at 1 that takes 1 to 3 s, 10 s and --launch (0.1-1000)."`
	Launch  float64 `default:"40" help:"Seconds from an Auto Scaling group's launch of an instance until it registers, at speed 1 (1-3600)."`
	Source  string  `default:"berth.fleet" help:"Source of the events; template.yaml's parameter EventSources must name it."`
	Listen  string  `default:"127.0.0.1:5253" help:"Address of the ECS protocol; port 0 takes a free one. Loopback only."`
	Data    string  `help:"Folder that the fleet is kept in; without it, it lives in memory." type:"path"`
	Account string  `default:"000000000000" help:"Account id in ARNs; that of the functions."`
	Region  string  `default:"us-east-1" help:"Region in ARNs and zone names."`
}

// Help is the end of `berth fleet --help`.
func (f *fleetCommand) Help() string {
	return `It speaks ECS's protocol and reports task and instance state changes to EventBridge at AWS_ENDPOINT_URL (or
AWS_ENDPOINT_URL_EVENTBRIDGE), under --source: nobody but AWS may send events of aws.ecs. Berth's functions find it by
AWS_ENDPOINT_URL_ECS.

It also has Auto Scaling groups (AWS_ENDPOINT_URL_AUTO_SCALING), launch templates (AWS_ENDPOINT_URL_EC2), CloudWatch's
metrics and alarms (AWS_ENDPOINT_URL_CLOUDWATCH), target groups and Cloud Map, as far as Berth needs them. A group's
instances register with the cluster that the launch template's user data names (ECS_CLUSTER=NAME), default where it names
none. Its subnets are in the Region's zones a, b, c ... in turn. Tags of a group have its launches go wrong:

  berth-fleet:launch-failure=InsufficientInstanceCapacity              they fail, with this code of EC2
  berth-fleet:launch-failure=InsufficientInstanceCapacity@us-east-1a   in this zone
  berth-fleet:launch-seconds=300               they take so much longer
  berth-fleet:launch-zone=us-east-1f           they are in a zone that the group does not have
  berth-fleet:launched-machines=never-register or never-healthy (the agent stays disconnected)

berth up has all of this too, on its one endpoint.

Examples:
  AWS_ENDPOINT_URL=http://127.0.0.1:4566 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test berth fleet
  berth fleet --nodes 40 --zones 4 --type c5.large --speed 10
  curl -X DELETE http://127.0.0.1:5253/fleet/instances/ID               # a machine is terminated
  curl -H 'Content-Type: application/json' -d '{"exitCode": 1}' http://127.0.0.1:5253/fleet/tasks/ID/exit
  curl -H 'Content-Type: application/json' -d '{"count": 2}' http://127.0.0.1:5253/fleet/instances

Ctrl-C ends it.`
}

func (f *fleetCommand) up() *upCommand {
	return &upCommand{
		Nodes: max(f.Nodes, 1), Zones: f.Zones, Type: f.Type, Cluster: f.Cluster, Listen: f.Listen, Account: f.Account,
		Region: f.Region,
	}
}

// Validate refuses what cannot work, naming the flag.
func (f *fleetCommand) Validate() error {
	switch {
	case f.Nodes < 0:
		return fmt.Errorf("--nodes is %d, expected 0 to 5000", f.Nodes)
	case !(f.Speed >= 0.1 && f.Speed <= 1000):
		return fmt.Errorf("--speed is %g, expected 0.1 to 1000", f.Speed)
	case !(f.Launch >= 1 && f.Launch <= 3600):
		return fmt.Errorf("--launch is %g, expected 1 to 3600", f.Launch)
	case f.Source == "":
		return errors.New("--source is empty")
	}
	return f.up().Validate()
}

// Run serves the fleet until the context ends.
func (f *fleetCommand) Run(ctx context.Context, s *streams) error {
	bus, err := busOfEnvironment(f.Region)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", f.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w (--listen 127.0.0.1:0 takes a free port)", f.Listen, err)
	}
	path := ""
	if f.Data != "" {
		if err := os.MkdirAll(f.Data, 0o755); err != nil {
			return errors.Join(fmt.Errorf("making the data folder: %w", err), listener.Close())
		}
		path = filepath.Join(f.Data, "fleet.db")
	}
	fast := func(d time.Duration) time.Duration { return time.Duration(float64(d) / f.Speed) }
	return dataplane.Serve(ctx, dataplane.Options{
		AWS: sim.Options{
			Seed: f.Seed, Account: cluster.Account{ID: f.Account, Region: f.Region}, Source: f.Source,
			AlarmSource: f.Source, ScalingSource: f.Source, Path: path,
			MinStart: fast(time.Second), MaxStart: fast(3 * time.Second), HealthyAfter: fast(10 * time.Second),
			LaunchAfter: fast(time.Duration(f.Launch * float64(time.Second))),
		},
		Listener: listener, Bus: bus, Cluster: f.Cluster, Nodes: f.Nodes,
		Machine: ec2.Machine{Type: f.Type, Zones: f.up().zoneNames()},
		Ready:   func(endpoint string, added int) { f.ready(s, endpoint, added) },
		Log:     slog.New(slog.NewTextHandler(s.err, nil)),
	})
}

func (f *fleetCommand) ready(s *streams, endpoint string, added int) {
	if f.Nodes > 0 {
		fmt.Fprintf(s.out, "Cluster %s: %d instances of %s added. Ctrl-C ends it.\n", f.Cluster, added, f.Type)
	}
	fmt.Fprintf(s.out, "The fleet's ECS protocol is at %s\n", endpoint)
}

// busOfEnvironment is EventBridge as the environment names it. Without an endpoint it is an error:
// a simulated fleet has nothing to report to an account.
func busOfEnvironment(region string) (*eventbus.Bus, error) {
	env, err := config.NewEnvConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the AWS configuration: %w", err)
	}
	if env.BaseEndpoint == "" && os.Getenv("AWS_ENDPOINT_URL_EVENTBRIDGE") == "" {
		return nil,
			fmt.Errorf("%w: AWS_ENDPOINT_URL is not set, expected where EventBridge is, such as http://127.0.0.1:4566",
				errUsage)
	}
	if !env.Credentials.HasKeys() {
		return nil,
			fmt.Errorf("%w: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set; an emulator takes test and test",
				errUsage)
	}
	c := aws.Config{
		Region: region, Credentials: credentials.StaticCredentialsProvider{Value: env.Credentials},
		ConfigSources: []any{env},
		HTTPClient: awsapi.HTTP{Client: awshttp.NewBuildableClient().WithTimeout(10 * time.Second).WithTransportOptions(func(t *http.Transport) {
			t.Proxy = nil
		})},
	}
	if env.BaseEndpoint != "" {
		c.BaseEndpoint = &env.BaseEndpoint
	}
	return &eventbus.Bus{Client: eventbridge.NewFromConfig(c)}, nil
}
