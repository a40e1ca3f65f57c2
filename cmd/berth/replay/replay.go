package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/cmd/berth/installation"
	"berth/cmd/berth/trace"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/sim/ec2"
)

// clusterName is the cluster that a replay creates.
const clusterName = "replay"

// epoch is when a replay begins in virtual time. Results contain only differences from it.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Options say what to replay.
type Options struct {
	Nodes []trace.Node
	Tasks []trace.Task
	// Compress divides the times of arrival; 0 means 1. Tasks run as long as they did in the trace,
	// so a compressed trace fills the cluster.
	Compress float64
	Seed     uint64
	// Strategy is a scoring, see [placement.Scorings]. Where it is empty, [Run] uses no strategy
	// and [RunScaled] packs by memory.
	Strategy string
	// Days ends a replay on groups after so much virtual time. 0 replays until all tasks have
	// ended.
	Days float64
	// Progress is called from time to time with the number of tasks that have arrived and ended,
	// and with how much virtual time has passed. It may be nil.
	Progress func(arrived, ended int, passed time.Duration)
	// Check is called by [Run] whenever the state has changed and no message, stream record or
	// outbox row is pending. An error ends the replay. It may be nil.
	Check func(i *installation.Installation) error
}

// replay is what all kinds of replay have in common: an installation on a virtual loop, and tasks
// that arrive at it.
type replay struct {
	options      Options
	installation *installation.Installation
	tasks        []trace.Task // in order of arrival
	arrived      int          // how many of tasks have arrived
	failed       error        // of calls made from the loop; ends the replay
}

// kind is what differs between replays: how the cluster gets its instances, how a task is run, and
// when the replay is over.
type kind interface {
	addCapacity(ctx context.Context) error
	submitTask(t trace.Task) error
	startMeasuring()
	countEndedTasks() int
	// isReplayOver is called before each step of the loop, with the number of steps taken.
	isReplayOver(step int) bool
	checkAfterStep() error // after each step
}

// openReplay puts an installation together. hooks contains what measures it; the rest is set here.
func openReplay(o Options, hooks installation.Options) (*replay, error) {
	if len(o.Tasks) == 0 {
		return nil, errors.New("there is no task, expected at least one to replay")
	}
	for _, t := range o.Tasks {
		if t.Created == nil || t.Deleted == nil {
			return nil, fmt.Errorf("task %s has no creation_time or no deletion_time; a replay needs both", t.Name)
		}
	}
	if o.Compress <= 0 {
		o.Compress = 1
	}
	// ECS's limits on waiting tasks and services would refuse a compressed trace.
	settings := handler.DefaultSettings()
	settings.ProvisioningLimit, settings.ServiceLimit = len(o.Tasks), len(o.Tasks)
	hooks.Loop, hooks.Seed, hooks.Settings = embedded.NewVirtualLoop(epoch), o.Seed, &settings
	// Ids are counted, as random ones would change the hash.
	ids := 0
	hooks.NewID = func() string { ids++; return fmt.Sprintf("%032x", ids) }
	i, err := installation.Open(hooks)
	if err != nil {
		return nil, err
	}
	byArrival := func(a, b trace.Task) int { return cmp.Compare(*a.Created, *b.Created) }
	return &replay{
		options: o, installation: i, tasks: slices.SortedStableFunc(slices.Values(o.Tasks), byArrival),
	}, nil
}

// playTrace prepares the cluster, starts the functions, and plays the trace until k says that it is
// over.
func (r *replay) playTrace(ctx context.Context, k kind) error {
	if _, err := r.installation.EnsureCluster(ctx, clusterName, 0, ec2.Machine{}); err != nil {
		return err
	}
	if err := k.addCapacity(ctx); err != nil {
		return err
	}
	for _, s := range distinctShapes(r.options.Tasks) {
		if err := registerShape(ctx, r.installation, s); err != nil {
			return err
		}
	}
	if err := r.installation.Start(ctx); err != nil {
		return err
	}
	r.scheduleArrival(k)
	k.startMeasuring()
	return r.stepUntilOver(ctx, k)
}

// scheduleArrival lets the next task arrive at its time. Each arrival schedules the one after it.
func (r *replay) scheduleArrival(k kind) {
	if r.arrived == len(r.tasks) {
		return
	}
	t, loop := r.tasks[r.arrived], r.installation.Loop
	at := epoch.Add(time.Duration(float64(*t.Created) / r.options.Compress))
	loop.After(max(0, at.Sub(loop.Now())), func() {
		r.arrived++
		if err := k.submitTask(t); err != nil {
			r.failed = errors.Join(r.failed, fmt.Errorf("task %s: %w", t.Name, err))
		}
		r.scheduleArrival(k)
	})
}

// stepsPerReport is how many steps of the loop pass between two reports of progress and two looks
// at the context.
const stepsPerReport = 4096

// quietPeriod is how long after the last arrival or end of a task a replay waits for something
// more. It is longer than any retry and contains two hourly sweeps.
const quietPeriod = 3 * time.Hour

// stepUntilOver steps the loop until the replay is over or has failed. Virtual time passes as fast
// as the steps do.
func (r *replay) stepUntilOver(ctx context.Context, k kind) error {
	for step := 0; ; step++ {
		if step%stepsPerReport == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if r.options.Progress != nil {
				r.options.Progress(r.arrived, k.countEndedTasks(), r.installation.Loop.Now().Sub(epoch))
			}
		}
		over := k.isReplayOver(step)
		if over || r.failed != nil {
			return r.failed
		}
		if !r.installation.Loop.Step() {
			return errors.New("the loop has nothing left to do")
		}
		if err := k.checkAfterStep(); err != nil {
			return err
		}
	}
}

// runTime is how long a task runs: as long as in the trace, and at least a second.
func runTime(t trace.Task) time.Duration { return max(time.Second, *t.Deleted-*t.Created) }
