package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/console"
	"berth/cmd/berth/dataplane"
	"berth/cmd/berth/heap"
	"berth/cmd/berth/installation"
	"berth/cmd/berth/proxy"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/sim/ec2"
	"berth/shared/wire/access"
)

// upCommand runs an embedded Berth until it is interrupted: the scheduler, its APIs and the
// simulated AWS behind it, on one address. The data folder has two files, state.db with Berth's
// rows and fleet.db with the simulated AWS; only one process at a time can have it open.
type upCommand struct {
	fleetFlags
	Nodes       int     `default:"6" help:"Least number of container instances (0-5000)."`
	Listen      string  `default:"127.0.0.1:5252" help:"Address of the API; port 0 takes a free one. Loopback only."`
	Data        string  `help:"Folder that keeps the state and the fleet (.berth)." type:"path" placeholder:"FOLDER"`
	Ephemeral   bool    `help:"Keep nothing on disk."`
	Speed       float64 `default:"1" help:"How many times faster time passes (1-100); keeps nothing on disk."`
	Account     string  `default:"123456789012" help:"Account id in ARNs."`
	Credentials string  `help:"File of keys that may call." type:"existingfile" placeholder:"FILE"`
	Verbose     bool    `short:"v" help:"Log what the functions do, beside what fails."`
}

// Validate names the flag that is wrong.
func (u *upCommand) Validate() error {
	switch {
	case !(u.Speed >= 1 && u.Speed <= 100):
		return fmt.Errorf("--speed is %g, expected 1 to 100", u.Speed)
	case u.Speed > 1 && u.Data != "":
		// Times that lie ahead of the machine's clock must not outlive this process.
		return fmt.Errorf("--data is %q, expected none beside --speed %g, which needs --ephemeral: "+
			"what is kept on disk must not be ahead of time", u.Data, u.Speed)
	case u.Ephemeral && u.Data != "":
		return fmt.Errorf("--data is %q, expected none beside --ephemeral, which neither reads nor keeps anything",
			u.Data)
	}
	return u.checkFleetFlags(u.Nodes, 0, u.Listen, u.Account)
}

// folder is the data folder, or empty if nothing is kept.
func (u *upCommand) folder() string {
	if u.Ephemeral || u.Speed > 1 {
		return ""
	}
	return cmp.Or(u.Data, ".berth")
}

// Run starts the installation, prints where the API is, and serves until the context ends.
func (u *upCommand) Run(ctx context.Context, s *streams) error {
	log := installation.NewFailureLog(s.err)
	if u.Verbose {
		log = slog.New(slog.NewTextHandler(s.err, nil))
	}
	o := installation.Options{
		Account: cluster.Account{ID: u.Account, Region: u.Region}, Seed: u.Seed, Log: log,
		// On AWS a batch window and a longer interval save invocations. Here they cost nothing.
		Parameters: map[string]string{"BatchWindow": "0", "HealthCheckInterval": "rate(10 seconds)"},
	}
	if u.Credentials != "" {
		var err error
		if o.Verifier, o.Access, err = u.readCredentials(s); err != nil {
			return err
		}
		o.Audit = slog.New(slog.NewTextHandler(s.err, nil)) // who did what is worth a line, also without --verbose
	}
	if o.Data = u.folder(); o.Data != "" {
		if err := os.MkdirAll(o.Data, 0o755); err != nil {
			return fmt.Errorf("making the data folder: %w", err)
		}
	}
	o.Loop = embedded.NewFastLoop(u.Speed)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	disk := diskReport{w: s.err, end: end}
	o.Unwritable = disk.report
	pages := u.newConsole(&o)
	defer context.AfterFunc(ctx, pages.Close)()
	go heap.Tune(ctx)
	err := serveInstallation(ctx, o, servingOptions{
		Pages:  pages,
		Listen: u.Listen, Cluster: u.Cluster, Nodes: u.Nodes, Machine: u.fleetMachine(),
		Ready: func(endpoint string, added int) {
			did, kept := "continues where it stopped", "nothing kept on disk"
			switch {
			case added > 0:
				did = fmt.Sprintf("%s of %s added", whatif.CountNoun(added, "instance"), u.Type)
			case o.Data == "":
				did = "no instances yet"
			}
			if o.Data != "" {
				kept = "state in " + o.Data
			}
			fmt.Fprintf(s.out, "Cluster %s: %s; %s. Ctrl-C stops it.\n", u.Cluster, did, kept)
			fmt.Fprintf(s.out, "Berth's ECS API is at %s\n", endpoint)
			fmt.Fprintln(s.out, "In another shell, for the AWS CLI and SDKs:")
			_ = proxy.PrintExports(s.out, os.Environ(), proxy.LocalEnvironment(endpoint, u.Region, o.Verifier == nil))
			fmt.Fprintf(s.out, "The console is at %s\n", pages.Address(endpoint))
		},
	})
	var lost *cluster.UnwritableError
	if errors.As(context.Cause(ctx), &lost) {
		return lost
	}
	return err
}

// newConsole makes the console of the installation that is about to be opened. Where callers need
// credentials, it asks for a token.
func (u *upCommand) newConsole(o *installation.Options) *console.Console {
	source := &console.StoreSource{}
	o.Watch = source.Watch
	token := ""
	if o.Verifier != nil {
		token = console.NewToken()
	}
	return console.New(console.Options{Source: source, Cluster: u.Cluster, Token: token})
}

// A diskReport says once when the files of the data folder cannot be written, and once when they can
// again. On a full disk small writes still succeed now and then, between larger ones that fail.
type diskReport struct {
	w   io.Writer
	end context.CancelCauseFunc // ends the program

	mu        sync.Mutex
	failing   int         // files whose last write failed
	said      []string    // files that were named since all could be written
	recovered *time.Timer // says that all can be written again
}

// quietTime is how long all writes must succeed before the files are said to be writable again.
const quietTime = 10 * time.Second

// report takes the error of a file's first write that fails, and nil for the first one after it that
// succeeds. It ends the program if it is not known any more what the file holds.
func (d *diskReport) report(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if errors.Is(err, cluster.ErrAmbiguous) {
		d.end(err)
		return
	}
	if d.recovered != nil {
		d.recovered.Stop()
	}
	if err == nil {
		d.failing--
		d.recovered = time.AfterFunc(quietTime, d.reportRecovered)
		return
	}
	d.failing++
	path := ""
	var unwritable *cluster.UnwritableError
	if errors.As(err, &unwritable) {
		path = unwritable.Path
	}
	if !slices.Contains(d.said, path) {
		d.said = append(d.said, path)
		fmt.Fprintln(d.w, err)
	}
}

func (d *diskReport) reportRecovered() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failing == 0 && d.said != nil {
		d.said = nil
		fmt.Fprintln(d.w, "The data folder can be written again.")
	}
}

// readCredentials reads the access keys. It warns if other users of the machine can read them, too.
func (u *upCommand) readCredentials(s *streams) (*access.Verifier, *access.Policy, error) {
	info, err := os.Stat(u.Credentials)
	if err != nil {
		return nil, nil, err
	}
	if open := info.Mode().Perm() & 0o077; open != 0 {
		fmt.Fprintf(s.err, "Other users can read %s: run chmod 600 %s\n", u.Credentials, u.Credentials)
	}
	text, err := os.ReadFile(u.Credentials)
	if err != nil {
		return nil, nil, err
	}
	v, p, err := access.ReadCredentials(text, time.Now)
	if err != nil {
		return nil, nil, fmt.Errorf("--credentials %s: %w", u.Credentials, err)
	}
	return v, p, nil
}

// servingOptions are what [serveInstallation] adds to an installation: an address, and a cluster
// with at least so many instances.
type servingOptions struct {
	Listen  string
	Cluster string
	Nodes   int
	Machine ec2.Machine
	// Pages are served where no API has a path, on the store that they follow; nil for none.
	Pages *console.Console
	// Ready is called once, when the API answers, with the number of instances added.
	Ready func(endpoint string, added int)
}

// lastAnswers is how long calls in progress have to end: longer than RunTask waits.
const lastAnswers = 8 * time.Second

// serveInstallation runs an installation with its API until ctx ends. With a data folder, the next
// one continues where this one stopped.
func serveInstallation(ctx context.Context, o installation.Options, s servingOptions) (err error) {
	// The address is taken first: a second `berth up` fails on it before it touches the data.
	listener, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w (is another berth running? --listen 127.0.0.1:0 takes a free port)",
			s.Listen, err)
	}
	defer func() {
		// The server closes the listener when it shuts down; closing it again is no failure.
		if closed := listener.Close(); !errors.Is(closed, net.ErrClosed) {
			err = errors.Join(err, closed)
		}
	}()
	i, err := installation.Open(o)
	switch {
	case err != nil && o.Data != "":
		return fmt.Errorf("opening the data folder (--data %s, --account %s, --region %s): %w", o.Data, o.Account.ID,
			o.Account.Region, err)
	case err != nil:
		return err
	}
	// The loop does not end with ctx: calls in progress still need it.
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
	server := i.Server
	if s.Pages != nil {
		if source, ok := s.Pages.Source.(*console.StoreSource); ok {
			source.Store, source.CapacityRows, source.Clock = i.Store, i.API.Rows.CapacityRows, i.Loop.Now
			source.DeadLetters, source.DisconnectTimeout = i.DeadLetters, i.API.Rows.DisconnectTimeout()
			source.Groups, source.FailedLaunches = i.AWS.Groups.DescribeGroups, i.AWS.Groups.FailedLaunches
		}
		// Where callers need keys, a page has none of its own: `berth console` calls with the
		// user's.
		if o.Verifier == nil {
			s.Pages.API = client.ForHandler(i.Server)
		}
		server = s.Pages.Handler(server)
	}
	ready := func(endpoint string) { s.Ready(endpoint, added) }
	return dataplane.ServeUntil(ctx, listener, server, lastAnswers, ready)
}

// startInstallation makes the cluster, and connects the functions on the loop, as they run there
// from then on.
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
