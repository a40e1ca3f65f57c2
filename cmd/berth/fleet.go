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
	"berth/cmd/berth/whatif"
	"berth/shared/awsapi"
	"berth/shared/awsapi/eventbus"
	"berth/shared/cluster"
	"berth/shared/sim"
)

// fleetCommand runs only the simulated AWS, for a Berth that runs elsewhere. It plays two parts
// of AWS for it: the APIs that it calls, and the events that EventBridge delivers to it.
type fleetCommand struct {
	fleetFlags
	Nodes   int     `default:"6" help:"Least number of container instances (0-5000; 0 makes no cluster)."`
	Speed   float64 `default:"1" help:"How many times faster the fleet acts (0.1-1000)."`
	Launch  float64 `default:"40" help:"Seconds until a launched instance registers, at speed 1 (1-3600)."`
	Source  string  `default:"berth.fleet" help:"Source of the events, which EventSources must contain."`
	Listen  string  `default:"127.0.0.1:5253" help:"Address of the ECS protocol; port 0: a free one. Loopback only."`
	Data    string  `help:"Folder that keeps the fleet; without it, the fleet is in memory." type:"path"`
	Account string  `default:"000000000000" help:"Account id in ARNs: that of the functions."`
}

// Validate names the flag that is wrong.
func (f *fleetCommand) Validate() error {
	switch {
	case !(f.Speed >= 0.1 && f.Speed <= 1000):
		return fmt.Errorf("--speed is %g, expected 0.1 to 1000", f.Speed)
	case !(f.Launch >= 1 && f.Launch <= 3600):
		return fmt.Errorf("--launch is %g, expected 1 to 3600", f.Launch)
	case f.Source == "":
		return errors.New("--source is empty")
	}
	return f.checkFleetFlags(f.Nodes, 0, f.Listen, f.Account)
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
	// Without a path, the simulated AWS keeps everything in memory.
	path := ""
	if f.Data != "" {
		if err := os.MkdirAll(f.Data, 0o755); err != nil {
			return errors.Join(fmt.Errorf("making the data folder: %w", err), listener.Close())
		}
		path = filepath.Join(f.Data, "fleet.db")
	}
	// At speed 10, a second of the fleet takes a tenth.
	atSpeed := func(d time.Duration) time.Duration { return time.Duration(float64(d) / f.Speed) }
	return dataplane.Serve(ctx, dataplane.Options{
		AWS: sim.Options{
			Seed: f.Seed, Account: cluster.Account{ID: f.Account, Region: f.Region}, Source: f.Source,
			AlarmSource: f.Source, ScalingSource: f.Source, Path: path,
			MinStart: atSpeed(time.Second), MaxStart: atSpeed(3 * time.Second), HealthyAfter: atSpeed(10 * time.Second),
			LaunchAfter: atSpeed(time.Duration(f.Launch * float64(time.Second))),
		},
		Listener: listener, Bus: bus, Cluster: f.Cluster, Nodes: f.Nodes, Machine: f.fleetMachine(),
		Ready: func(endpoint string, added int) {
			if f.Nodes > 0 {
				fmt.Fprintf(s.out, "Cluster %s: %s of %s added. Ctrl-C stops it.\n", f.Cluster,
					whatif.CountNoun(added, "instance"), f.Type)
			}
			fmt.Fprintf(s.out, "The fleet's ECS protocol is at %s\n", endpoint)
		},
		Log: slog.New(slog.NewTextHandler(s.err, nil)),
	})
}

// busOfEnvironment returns EventBridge at the endpoint in the environment. A missing endpoint is an
// error: a simulated AWS must never report to an AWS account.
func busOfEnvironment(region string) (*eventbus.Bus, error) {
	env, err := config.NewEnvConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the AWS configuration: %w", err)
	}
	// Without this check, the SDK would call the real EventBridge of the account.
	if env.BaseEndpoint == "" && os.Getenv("AWS_ENDPOINT_URL_EVENTBRIDGE") == "" {
		return nil, fmt.Errorf("%w: AWS_ENDPOINT_URL is not set, expected the address of EventBridge such as "+
			"http://127.0.0.1:4566", errUsage)
	}
	if !env.Credentials.HasKeys() {
		return nil, fmt.Errorf("%w: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, expected credentials; "+
			"an emulator accepts test and test", errUsage)
	}
	// A proxy of the environment would not reach an emulator on this machine.
	withoutProxy := func(t *http.Transport) { t.Proxy = nil }
	client := awshttp.NewBuildableClient().WithTimeout(10 * time.Second).WithTransportOptions(withoutProxy)
	c := aws.Config{
		Region: region, Credentials: credentials.StaticCredentialsProvider{Value: env.Credentials},
		ConfigSources: []any{env}, HTTPClient: awsapi.HTTP{Client: client},
	}
	if env.BaseEndpoint != "" {
		c.BaseEndpoint = &env.BaseEndpoint
	}
	return &eventbus.Bus{Client: eventbridge.NewFromConfig(c)}, nil
}
