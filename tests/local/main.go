// Command local is `make local`. It builds the functions, deploys template.yaml unchanged to an
// emulator of AWS on a free loopback port, starts the simulated AWS, and prints how to use them.
// Ctrl-C removes all of it.
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
	nodes := flag.Int("nodes", 6, "simulated container instances in cluster default")
	log := flag.String("log", ".cache/log/local.log",
		"file for the output of the emulator, the functions and the fleet")
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
	fmt.Printf(usage, c.Endpoint, c.SimulatedAWS, ministack.AccessKey, ministack.SecretKey, ministack.Region,
		cloud.StackName, o.Berth, logName)
	<-ctx.Done()
	fmt.Println("\nRemoving everything…")
	return nil
}

const usage = `
Berth runs on an emulator of AWS at %[1]s, with IAM enforced; its fleet is at %[2]s.
In a second terminal:

  export AWS_ENDPOINT_URL=%[1]s AWS_ACCESS_KEY_ID=%[3]s AWS_SECRET_ACCESS_KEY=%[4]s AWS_DEFAULT_REGION=%[5]s
  export AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING=%[2]s AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2=%[2]s
  export AWS_ENDPOINT_URL_SERVICEDISCOVERY=%[2]s
  export AWS_ENDPOINT_URL_AUTO_SCALING=%[2]s AWS_ENDPOINT_URL_EC2=%[2]s AWS_ENDPOINT_URL_CLOUDWATCH=%[2]s
  export BERTH_STACK=%[6]s BERTH_FLEET=%[2]s

  %[7]s proxy -- aws ecs create-cluster --cluster-name default
  %[7]s proxy -- aws ecs list-container-instances
  %[7]s explain cluster
  aws cloudformation describe-stacks --stack-name %[6]s
  %[7]s chaos kill      # terminates a machine of the fleet
  AWS_ENDPOINT_URL_ECS=%[2]s %[7]s doctor

The functions log to CloudWatch Logs: aws logs filter-log-events --log-group-name /berth/%[6]s/api
The emulator logs to %[8]s. Ctrl-C removes everything.
`
