// Package dataplane serves the simulated fleet from a process of its own: ECS's protocol for
// whoever schedules, reports of every change to EventBridge, and a few calls for what happens to
// real machines, which ECS has none for.
package dataplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"berth/shared/awsapi/eventbus"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
)

// Options say what fleet to serve, and where.
type Options struct {
	// AWS is what is simulated; Clock and Emit are set here.
	AWS sim.Options
	// Listener is where the protocol is served; it is closed in the end.
	Listener net.Listener
	// Bus gets the events.
	Bus *eventbus.Bus
	// Cluster is made sure to be there with at least Nodes instances of Machine, unless Nodes is 0.
	Cluster string
	Nodes   int
	Machine ec2.Machine
	// Ready is called once, when calls are answered.
	Ready func(endpoint string, added int)
	Log   *slog.Logger
}

// clock is the machine's.
type clock struct{}

func (clock) Now() time.Time { return time.Now() }

func (clock) After(d time.Duration, f func()) { time.AfterFunc(d, f) }

// lastReports is how long the reports of what has just happened have to go out when the process
// ends.
const lastReports = 5 * time.Second

// Serve answers until ctx ends.
func Serve(ctx context.Context, o Options) (err error) {
	reports := newReporter(o.Bus, o.Log)
	o.AWS.Clock, o.AWS.Emit = clock{}, reports.enqueue
	f, err := sim.Open(o.AWS)
	if err != nil {
		return errors.Join(err, o.Listener.Close())
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sending, stop := context.WithCancel(context.Background())
	sent := make(chan struct{})
	go func() { defer close(sent); reports.runSender(sending) }()
	defer func() {
		reports.drainFor(lastReports)
		stop()
		<-sent
	}()
	added, err := prepareFleet(ctx, f, o)
	if err != nil {
		return errors.Join(err, o.Listener.Close())
	}
	return serve(ctx, o, f, added)
}

func serve(ctx context.Context, o Options, f *sim.AWS, added int) error {
	server := &http.Server{Handler: newHandler(f, o.Log), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(o.Listener) }()
	o.Ready("http://"+o.Listener.Addr().String(), added)
	select {
	case err := <-failed:
		return fmt.Errorf("serving the fleet: %w", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := server.Shutdown(end); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return server.Close()
}

func prepareFleet(ctx context.Context, f *sim.AWS, o Options) (added int, err error) {
	if o.Nodes == 0 {
		return 0, nil
	}
	active, err := f.ECS.ClusterActive(ctx, o.Cluster)
	if err != nil {
		return 0, err
	}
	if !active {
		status, answer := f.ECS.Endpoint().ServeOperation(ctx, "CreateCluster",
			[]byte(`{"clusterName":`+strconv.Quote(o.Cluster)+`}`))
		if status != http.StatusOK {
			return 0, fmt.Errorf("creating cluster %s: %s", o.Cluster, answer)
		}
	}
	ids, err := f.ECS.ListInstances(ctx, o.Cluster)
	if err != nil {
		return 0, err
	}
	if added = max(0, o.Nodes-len(ids)); added > 0 {
		_, err = f.Machines.AddInstances(o.Cluster, added, o.Machine)
	}
	return added, err
}
