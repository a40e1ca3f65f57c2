// Command invoke is `make invoke`. It lets one function handle one event, through Lambda's runtime
// API and without Docker, on an emulator of AWS of its own, and prints what the function logs and
// answers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"berth/cmd/berth/installation"
	"berth/shared/awsevent"
	"berth/tests/cloud"
	"berth/tests/lambda"
	"berth/tests/ministack"
)

func main() {
	function := flag.String("function", "", "a folder of functions/")
	event := flag.String("event", "", "a file of events/, or any other file with a Lambda event")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *function == "" || *event == "" {
		fmt.Fprintln(os.Stderr,
			"invoke: give both flags, such as make invoke FUNCTION=task-state-change EVENT=events/task-stopped.json")
		os.Exit(2)
	}
	if err := run(ctx, *function, *event); err != nil {
		fmt.Fprintln(os.Stderr, "invoke:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, function, file string) (err error) {
	event, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if why := ministack.WhyUnavailable(); why != "" {
		return errors.New(why)
	}
	o, err := cloud.BuildAll(ctx, ".cache/local", cloud.Plain)
	if err != nil {
		return err
	}
	// The event may be a real one or the fleet's: the functions accept both sources.
	o.Parameters = map[string]string{
		"EventSources":   strings.Join([]string{installation.FleetSource, awsevent.SourceECS}, ","),
		"AlarmSources":   installation.FleetSource + ",aws.cloudwatch",
		"ScalingSources": installation.FleetSource + ",aws.autoscaling",
	}
	c, err := cloud.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	f, err := c.DeployedFunction(ctx, function)
	if err != nil {
		return err
	}
	f.Log = os.Stdout
	r, err := lambda.Start(f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	moved, from := cloud.MoveEvent(event)
	if from != "" {
		fmt.Fprintf(os.Stderr, "The event of %s is handled as one of account %s in %s.\n",
			from, ministack.Account, ministack.Region)
	}
	answer, err := r.Invoke(ctx, moved)
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", answer)
	return nil
}
