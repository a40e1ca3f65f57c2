// Command invoke is `make invoke`. It lets one function handle one event, through Lambda's runtime
// API and without Docker, on an emulator of AWS of its own. The state beside the event is put there
// first. It prints what the function logs, answers, writes and calls, and fails if that is not the
// effect that is written beside the event.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"berth/tests/cloud"
	"berth/tests/fixture"
	"berth/tests/ministack"
)

func main() {
	function := flag.String("function", "", "a folder of functions/; without it the one that EVENT.effect.json names")
	event := flag.String("event", "", "a file of events/, or any other file with a Lambda event")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *event == "" {
		fmt.Fprintln(os.Stderr, "invoke: give an event, such as make invoke EVENT=events/task-stopped.json")
		os.Exit(2)
	}
	if err := run(ctx, *function, *event); err != nil {
		fmt.Fprintln(os.Stderr, "invoke:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, function, file string) (err error) {
	f, err := fixture.Load(file)
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
	o.Parameters = fixture.Parameters()
	c, err := cloud.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	out, err := fixture.Run(ctx, c, f, function)
	if err != nil {
		return err
	}
	fmt.Print(out.Log)
	if err := printEffect(out, function); err != nil {
		return err
	}
	if err := checkEffect(f.Name, out); err != nil {
		return err
	}
	alone, err := f.RecordsAlone()
	for _, record := range alone {
		out, err := fixture.Run(ctx, c, record, function)
		if err != nil {
			return err
		}
		if err := checkEffect(record.Name, out); err != nil {
			return err
		}
	}
	return err
}

func checkEffect(name string, out *fixture.Outcome) error {
	if differences := out.Differences(); len(differences) > 0 {
		return fmt.Errorf("%s: this is not the effect that is written down:\n%s", name,
			strings.Join(differences, "\n"))
	}
	return nil
}

// printEffect prints what the function did, in the form of a file with an effect.
func printEffect(out *fixture.Outcome, function string) error {
	if out.Effect != nil && function == "" {
		function = out.Effect.Function
	}
	text, err := json.MarshalIndent(out.Record(function), "", "  ")
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", text)
	return nil
}
