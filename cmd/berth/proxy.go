package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/dataplane"
	"berth/cmd/berth/proxy"
)

// proxyCommand lets other tools call Berth: it signs their requests. It runs one of them, or prints
// what to export and serves until it is interrupted.
type proxyCommand struct {
	client.Endpoint
	Listen          string   `default:"127.0.0.1:0" help:"Loopback address; port 0 takes a free one."`
	KeepCredentials bool     `help:"Give COMMAND the AWS credentials instead of a random key."`
	Command         []string `arg:"" optional:"" passthrough:"" help:"Command to run, with its arguments, after --."`
}

// Validate names the flag that is wrong.
func (p *proxyCommand) Validate() error {
	if err := checkListen(p.Listen, "127.0.0.1:5253"); err != nil {
		return err
	}
	if p.KeepCredentials && len(p.command()) == 0 {
		return errors.New("--keep-credentials is set, expected only with a command after --")
	}
	return p.Endpoint.Validate()
}

// command returns the command without the -- before it.
func (p *proxyCommand) command() []string {
	if len(p.Command) > 0 && p.Command[0] == "--" {
		return p.Command[1:]
	}
	return p.Command
}

// lastForwarded is how long requests in progress have to end when the proxy does.
const lastForwarded = 2 * time.Second

// Run serves until the command ends, or without one until ctx does.
func (p *proxyCommand) Run(ctx context.Context, s *streams) error {
	target, err := client.FindTarget(ctx, p.Endpoint)
	if err != nil {
		return err
	}
	if !target.IsFunctionURL && !target.IsLocal() {
		return fmt.Errorf("--endpoint is %q, expected a function URL such as https://ID.lambda-url.REGION.on.aws/",
			target.URL)
	}
	key := proxy.NewKey()
	handler := proxy.NewHandler(target, key)
	listener, err := net.Listen("tcp", p.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", p.Listen, err)
	}
	endpoint := "http://" + listener.Addr().String()
	settings := key.Environment(endpoint, target.Region)
	if p.KeepCredentials {
		keys, err := handler.LendCredentials(ctx)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		settings = proxy.LentEnvironment(endpoint, target.Region, keys)
	}
	if len(p.command()) == 0 {
		ready := func(string) {
			fmt.Fprintf(s.err, "berth proxy forwards %s to %s. Ctrl-C stops it. In another shell:\n", endpoint,
				target.Host)
			_ = proxy.PrintExports(s.out, os.Environ(), settings) // a reader who has gone does not matter
		}
		return dataplane.ServeUntil(ctx, listener, handler, lastForwarded, ready)
	}
	// A signal is the command's business: the proxy serves for as long as the command runs.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	served := make(chan error, 1)
	go func() { served <- dataplane.ServeUntil(serving, listener, handler, lastForwarded, func(string) {}) }()
	err = proxy.RunCommand(proxy.Command{Arguments: p.command(), Out: s.out, Err: s.err,
		Environment: proxy.ChangeEnvironment(os.Environ(), settings)})
	stop()
	return errors.Join(err, <-served)
}
