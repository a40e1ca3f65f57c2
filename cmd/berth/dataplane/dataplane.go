package dataplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"berth/cmd/berth/chaos"
	"berth/shared/awsapi/eventbus"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
	"berth/shared/wire/transport"
)

// Options say what to serve, and where.
type Options struct {
	// AWS configures the simulation; Clock and Emit are set here.
	AWS sim.Options
	// Listener accepts the requests. Serve closes it.
	Listener net.Listener
	// Bus receives the events.
	Bus *eventbus.Bus
	// Cluster is created unless it exists, and gets instances of Machine until it has Nodes.
	// Nothing is done if Nodes is 0.
	Cluster string
	Nodes   int
	Machine ec2.Machine
	// Ready is called once, when requests are answered, with the number of instances added.
	Ready func(endpoint string, added int)
	Log   *slog.Logger
}

// clock is the machine's clock.
type clock struct{}

func (clock) Now() time.Time { return time.Now() }

func (clock) After(d time.Duration, f func()) { time.AfterFunc(d, f) }

// How long the process takes to end at most: calls in progress have lastAnswers, and then the
// reports that are still waiting have lastReports.
const (
	lastAnswers = time.Second
	lastReports = 5 * time.Second
)

// Serve runs the fleet until ctx ends, and then sends the events that are still waiting.
func Serve(ctx context.Context, o Options) (err error) {
	reports := newReporter(o.Bus, o.Log)
	o.AWS.Clock, o.AWS.Emit = clock{}, reports.enqueueEvent
	f, err := sim.Open(o.AWS)
	if err != nil {
		return errors.Join(err, o.Listener.Close())
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sending, stop := context.WithCancel(context.Background())
	sent := make(chan struct{})
	go func() { defer close(sent); reports.runSender(sending) }()
	defer func() {
		reports.waitUntilSent(lastReports)
		stop()
		<-sent
	}()
	added := 0
	if o.Nodes > 0 {
		if added, err = f.EnsureCluster(ctx, o.Cluster, o.Nodes, o.Machine); err != nil {
			return errors.Join(err, o.Listener.Close())
		}
	}
	ready := func(endpoint string) { o.Ready(endpoint, added) }
	return ServeUntil(ctx, o.Listener, newHandler(f, o.Log), lastAnswers, ready)
}

// newHandler serves the protocols of the simulated AWS, and below /fleet/ what breaks its machines.
func newHandler(f *sim.AWS, log *slog.Logger) http.Handler {
	ecs := f.ECS.Endpoint()
	ecs.Guard = transport.Guard{Loopback: true, Log: log}
	return chaos.Handler(f, nil, f.ServeProtocols(ecs))
}

// ServeUntil serves HTTP on the listener until ctx ends, and closes it. ready is called once, when
// calls are answered. Calls in progress have the grace period to end; after it they are broken off.
func ServeUntil(
	ctx context.Context, l net.Listener, h http.Handler, grace time.Duration, ready func(endpoint string),
) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	ready("http://" + l.Addr().String())
	select {
	case err := <-failed:
		return fmt.Errorf("serving on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := server.Shutdown(end); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return server.Close()
}
