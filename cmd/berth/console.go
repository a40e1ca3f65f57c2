package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"berth/cmd/berth/console"
	"berth/cmd/berth/dataplane"
	"berth/cmd/berth/whatif"
)

// consoleCommand shows a running Berth in a browser on this machine. It calls the API with the
// user's credentials, as the other commands do, so no page has to be public.
type consoleCommand struct {
	clusterFlags
	Listen string        `default:"127.0.0.1:0" help:"Loopback address; port 0 takes a free one."`
	Every  time.Duration `default:"5s" help:"Least time between two readings while a page is open."`
}

// Validate names the flag that is wrong.
func (c *consoleCommand) Validate() error {
	if err := checkListen(c.Listen, "127.0.0.1:5254"); err != nil {
		return err
	}
	if c.Every < 100*time.Millisecond {
		return fmt.Errorf("--every is %s, expected a time such as 5s", c.Every)
	}
	return c.clusterFlags.Validate()
}

// Run serves the pages until ctx ends.
func (c *consoleCommand) Run(ctx context.Context, s *streams) error {
	api, err := c.newClient(ctx)
	if err != nil {
		return err
	}
	// Later the pages say so. An API that does not answer now may do so by then.
	if names, err := api.ClusterNames(ctx); err == nil && !slices.Contains(names, c.Cluster) {
		return &whatif.NotFound{Kind: "cluster", Name: c.Cluster, Known: names}
	}
	pages := console.New(console.Options{Source: &console.ClientSource{API: api, Every: c.Every,
		DeadLetters: c.readDeadLetters, Callers: callersOf(c.Endpoint)}, Cluster: c.Cluster,
		Token: console.NewToken(), API: api})
	defer context.AfterFunc(ctx, pages.Close)()
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", c.Listen, err)
	}
	return dataplane.ServeUntil(ctx, listener, pages.Handler(http.NotFoundHandler()), lastForwarded,
		func(endpoint string) {
			fmt.Fprintf(s.out, "Open %s in one browser. Ctrl-C stops the console.\n", pages.Address(endpoint))
		})
}
