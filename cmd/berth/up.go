package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/sim/ec2"
)

// upCommand runs an embedded Berth until it is interrupted.
type upCommand struct {
	Nodes     int    `default:"6" help:"Simulated container instances that the cluster has at least (1-5000)."`
	Zones     int    `default:"3" help:"Availability zones that they are spread over (1-6)."`
	Type      string `default:"m5.large" help:"EC2 type of new instances."`
	Cluster   string `default:"default" help:"Name of the cluster."`
	Seed      uint64 `default:"1" help:"What the simulated fleet does by chance follows from this."`
	Listen    string `default:"127.0.0.1:5252" help:"Address of the ECS API; port 0 takes a free one. Loopback only."`
	Data      string `default:".berth" help:"Folder of the state and the fleet." type:"path"`
	Ephemeral bool   `help:"Keep nothing on disk."`
	Account   string `default:"123456789012" help:"Account id in ARNs."`
	Region    string `default:"us-east-1" help:"Region in ARNs and zone names."`
	Verbose   bool   `short:"v" help:"Log what the functions do."`
}

// Help is the end of `berth up --help`.
func (u *upCommand) Help() string {
	return `Examples:
  berth up                                      6 instances in 3 zones, state in .berth
  berth up --listen 127.0.0.1:0                 on a free port: the last line says which
  berth up --nodes 40 --zones 4 --type c5.large --data /tmp/big
  berth up --ephemeral                          all is gone when it ends

Started again on the same data, it goes on where it was; the simulated tasks have gone on meanwhile.
The same address has EKS's node groups and the simulated fleet's Auto Scaling, launch templates, CloudWatch, target groups
and Cloud Map (berth fleet --help): export AWS_ENDPOINT_URL=http://127.0.0.1:5252
Ctrl-C ends it.`
}

var (
	clusterNames = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,255}$`)
	regions      = regexp.MustCompile(`^[a-z]{2,}(-[a-z]+)+-[0-9]+$`)
)

// Validate refuses what cannot work, naming the flag.
func (u *upCommand) Validate() error {
	host, port, err := net.SplitHostPort(u.Listen)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return fmt.Errorf("--listen is %q, expected address:port such as 127.0.0.1:5252", u.Listen)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--listen is %q, but the embedded API checks no signatures and listens on loopback only",
			u.Listen)
	}
	switch {
	case u.Nodes < 1 || u.Nodes > 5000:
		return fmt.Errorf("--nodes is %d, expected 1 to 5000", u.Nodes)
	case u.Zones < 1 || u.Zones > 6:
		return fmt.Errorf("--zones is %d, expected 1 to 6", u.Zones)
	case !clusterNames.MatchString(u.Cluster):
		return fmt.Errorf("--cluster is %q, expected 1 to 255 letters, digits, hyphens and underscores", u.Cluster)
	case !regions.MatchString(u.Region):
		return fmt.Errorf("--region is %q, expected a Region such as us-east-1", u.Region)
	case len(u.Account) != 12 || strings.Trim(u.Account, "0123456789") != "":
		return fmt.Errorf("--account is %q, expected 12 digits", u.Account)
	case !slices.Contains(ec2.MachineTypes(), u.Type):
		return fmt.Errorf("--type is %q, expected one of %s", u.Type, strings.Join(ec2.MachineTypes(), ", "))
	}
	return nil
}

func (u *upCommand) zoneNames() []string {
	var out []string
	for i := range u.Zones {
		out = append(out, u.Region+string(rune('a'+i)))
	}
	return out
}

// Run starts the installation, prints where the API is, and serves until the context ends.
func (u *upCommand) Run(ctx context.Context, s *streams) error {
	log := slog.New(slog.DiscardHandler)
	if u.Verbose {
		log = slog.New(slog.NewTextHandler(s.err, nil))
	}
	o := installation.Options{
		Account: cluster.Account{ID: u.Account, Region: u.Region}, Seed: u.Seed, Log: log,
		// Nobody pays for invocations here, so nothing waits for company.
		Parameters: map[string]string{"BatchWindow": "0"},
	}
	if !u.Ephemeral {
		if err := os.MkdirAll(u.Data, 0o755); err != nil {
			return fmt.Errorf("making the data folder: %w", err)
		}
		o.Data = u.Data
	}
	return serveInstallation(ctx, o, u.servingOptions(s))
}

func (u *upCommand) servingOptions(s *streams) servingOptions {
	return servingOptions{
		Listen: u.Listen, Cluster: u.Cluster, Nodes: u.Nodes, Machine: ec2.Machine{Type: u.Type, Zones: u.zoneNames()},
		Ready: func(endpoint string, added int) {
			did, kept := "goes on where it was", "nothing kept on disk"
			if added > 0 {
				did = fmt.Sprintf("%d instances of %s added", added, u.Type)
			}
			if !u.Ephemeral {
				kept = "state in " + u.Data
			}
			fmt.Fprintf(s.out, "Cluster %s: %s; %s. Ctrl-C ends it.\n", u.Cluster, did, kept)
			fmt.Fprintf(s.out, "Berth's ECS API is at %s\n", endpoint)
		},
	}
}

// servingOptions is what [Serve] adds to an installation.
type servingOptions struct {
	Listen  string
	Cluster string
	Nodes   int
	Machine ec2.Machine
	// Ready is called once, when the API answers.
	Ready func(endpoint string, added int)
}

// serveInstallation runs an installation with its API until ctx ends, and leaves it in a state to
// go on from.
func serveInstallation(ctx context.Context, o installation.Options, s servingOptions) (err error) {
	// The address is taken first: a second `berth up` fails on it before it touches anything.
	listener, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w (is another berth running? --listen 127.0.0.1:0 takes a free port)",
			s.Listen, err)
	}
	defer func() { err = errors.Join(err, ignoreClosed(listener.Close())) }()
	o.Loop = embedded.NewRealLoop()
	i, err := installation.Open(o)
	switch {
	case err != nil && o.Data != "":
		return fmt.Errorf("opening the data folder (--data %s): %w", o.Data, err)
	case err != nil:
		return err
	}
	loop, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); i.Loop.Run(loop) }()
	defer func() {
		stop()
		<-ended
		err = errors.Join(err, i.Close())
	}()
	added, err := startInstallation(ctx, i, s)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: i.Server, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	s.Ready("http://"+listener.Addr().String(), added)
	select {
	case err = <-failed:
		return fmt.Errorf("serving the API: %w", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.Background(), lastAnswers)
	defer cancel()
	if err := server.Shutdown(end); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return server.Close() // whoever still waits will find the state as it was left
}

// lastAnswers is how long calls under way have to end: longer than RunTask waits.
const lastAnswers = 8 * time.Second

func startInstallation(ctx context.Context, i *installation.Installation, s servingOptions) (added int, err error) {
	if added, err = i.EnsureCluster(ctx, s.Cluster, s.Nodes, s.Machine); err != nil {
		return 0, err
	}
	var started error
	if err := i.Loop.Do(ctx, func() { started = i.Start(ctx) }); err != nil {
		return 0, err
	}
	return added, started
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
