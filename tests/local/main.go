// Command local is `make local`: it builds the functions, deploys template.yaml unchanged to an emulator of AWS on a
// free loopback port, starts the simulated fleet, says how to use it, and takes all of it down on Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"berth/tests/cloud"
	"berth/tests/ministack"
)

func main() {
	nodes := flag.Int("nodes", 6, "simulated container instances of cluster default")
	log := flag.String("log", ".cache/log/local.log", "file for what the emulator, the functions and the fleet print")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, *nodes, *log)
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "local:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, nodes int, logName string) (err error) {
	if why := ministack.WhyUnavailable(); why != "" {
		return errors.New(why)
	}
	if err := os.MkdirAll(filepath.Dir(logName), 0o755); err != nil {
		return err
	}
	log, err := os.Create(logName)
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Println("Building the functions…")
	o, err := cloud.BuildAll(ctx, ".cache/local", cloud.Plain)
	if err != nil {
		return err
	}
	o.Log = log
	o.FleetArguments = []string{"--nodes", fmt.Sprint(nodes)}
	fmt.Println("Deploying template.yaml to an emulator…")
	c, err := cloud.Start(ctx, o)
	if err != nil {
		return fmt.Errorf("%w (see %s)", err, logName)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	fmt.Printf(usage, c.Endpoint, c.SimulatedAWS, c.Endpoint, ministack.AccessKey, ministack.SecretKey, ministack.Region, c.API, c.SimulatedAWS, c.SimulatedAWS, c.SimulatedAWS, c.SimulatedAWS, c.SimulatedAWS, c.SimulatedAWS, logName)
	<-ctx.Done()
	fmt.Println("\nTaking it down…")
	return nil
}

const usage = `
Berth runs on an emulator of AWS at %s, with IAM enforced; its fleet is at %s.
In a second terminal:

  export AWS_ENDPOINT_URL=%s AWS_ACCESS_KEY_ID=%s AWS_SECRET_ACCESS_KEY=%s AWS_DEFAULT_REGION=%s
  export AWS_ENDPOINT_URL_ECS=%s
  export AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2=%s AWS_ENDPOINT_URL_SERVICEDISCOVERY=%s
  export AWS_ENDPOINT_URL_AUTO_SCALING=%s AWS_ENDPOINT_URL_EC2=%s AWS_ENDPOINT_URL_CLOUDWATCH=%s

  aws ecs create-cluster --cluster-name default
  aws ecs list-container-instances
  aws cloudformation describe-stacks --stack-name berth
  curl -X DELETE %s/fleet/instances/ID      # a machine is terminated

What the functions log goes to %s. Ctrl-C takes it all down.
`
